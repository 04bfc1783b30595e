"""Tokens per ms of adapters that share one engine, every place of whose batch is always taken.

A request is of adapter i with share p_i and stays until its tokens are written, at E_i(d_i) a step: who is slow stays
long. A place of the batch is therefore adapter i's with probability w_i ~ p_i / E_i(d_i), places are independent, and

    goodput = B / sum_i (p_i / E_i(d_i)) / mean over batches of T(d_1..d_B)
"""

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.table_steps import TableSteps

Array = NDArray[np.float64]
Depths = NDArray[np.int64]


def goodputs(depths: Depths, lengths: Array, shares: Array, steps: TableSteps) -> Array:
    """Return tokens per ms of every assignment.

    Parameters
    ----------
    depths
        Shape ``(..., adapters)``.
    lengths
        E_0 to E_K by adapter, shape ``(adapters, K + 1)``.
    shares
        Of the output tokens, shape ``(adapters,)``; add up to 1.
    """
    steps_per_token = shares / lengths[np.arange(len(lengths)), depths]
    total = steps_per_token.sum(axis=-1)
    places = steps_per_token / total[..., None]
    return steps.batch_size / total / steps.mean_step_ms(places, depths)
