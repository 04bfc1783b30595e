"""Tokens per ms of adapters that share one engine, every place of whose batch is taken, and the depths that make most.

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


def best_depths(
    lengths: Array, shares: Array, steps: TableSteps, *, floors: Depths | None = None, ceilings: Depths | None = None
) -> Depths:
    """Return the depths of the most goodput: from several starts, one adapter changed at a time while that gains.

    Starts are every depth for all, each adapter's best alone, and what is best where another adapter makes the step as
    deep as m, for every m: who is not the deepest saves only what verifying its drafts costs.

    Parameters
    ----------
    floors, ceilings
        Least and largest depth of each adapter, shape ``(adapters,)``; None: any that ``lengths`` has.
    """
    num_adapters, num_depths = lengths.shape
    low = np.zeros(num_adapters, dtype=np.int64) if floors is None else floors
    high = np.full(num_adapters, num_depths - 1) if ceilings is None else ceilings
    starts = {tuple(np.clip(start, low, high).tolist()) for start in _starts(lengths, steps)}
    found = [_climbed(np.array(start), low, high, lengths, shares, steps) for start in sorted(starts)]
    return max(found, key=lambda depths: float(goodputs(depths, lengths, shares, steps)))


def _starts(lengths: Array, steps: TableSteps) -> list[Depths]:
    num_adapters, num_depths = lengths.shape
    ladder = np.arange(num_depths)
    starts = [np.full(num_adapters, depth) for depth in ladder]
    starts.append((lengths / steps.alike_ms).argmax(axis=1))
    for deepest in ladder[1:]:
        own = steps.alike_ms[deepest] / steps.batch_size - steps.token_ms * (deepest - ladder[: deepest + 1])
        starts.append((own / lengths[:, : deepest + 1]).argmin(axis=1))
    return starts


def _climbed(start: Depths, low: Depths, high: Depths, lengths: Array, shares: Array, steps: TableSteps) -> Depths:
    num_adapters, num_depths = lengths.shape
    adapter = np.repeat(np.arange(num_adapters), num_depths)
    depth = np.tile(np.arange(num_depths), num_adapters)
    is_allowed = (low[adapter] <= depth) & (depth <= high[adapter])
    current, best = start, float(goodputs(start, lengths, shares, steps))
    while True:
        changed = np.repeat(current[None], len(depth), axis=0)
        changed[np.arange(len(depth)), adapter] = depth
        found = np.where(is_allowed, goodputs(changed, lengths, shares, steps), -np.inf)
        place = int(found.argmax())
        if found[place] <= best * (1 + 1e-12):
            return current
        current, best = changed[place], float(found[place])
