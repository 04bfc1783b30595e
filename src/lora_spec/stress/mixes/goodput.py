"""The depths that make most tokens per ms of a mix in one engine: the oracle's choice."""

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.mix_goodput import Depths, goodputs
from lora_spec.cost_model.table_steps import TableSteps

Array = NDArray[np.float64]


def best_depths(lengths: Array, shares: Array, steps: TableSteps) -> Depths:
    """Return the depths of the most goodput: from several starts, one adapter changed at a time while that gains.

    Starts are every depth for all, each adapter's best alone, and what is best where another adapter makes the step as
    deep as m, for every m (see :mod:`lora_spec.stress.policies.mix_depths`).
    """
    found = [_climbed(start, lengths, shares, steps) for start in _starts(lengths, steps)]
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


def _climbed(start: Depths, lengths: Array, shares: Array, steps: TableSteps) -> Depths:
    num_adapters, num_depths = lengths.shape
    current, best = start, float(goodputs(start, lengths, shares, steps))
    while True:
        changed = np.repeat(current[None], num_adapters * num_depths, axis=0)
        changed[np.arange(len(changed)), np.repeat(np.arange(num_adapters), num_depths)] = np.tile(
            np.arange(num_depths), num_adapters
        )
        found = goodputs(changed, lengths, shares, steps)
        place = int(found.argmax())
        if found[place] <= best * (1 + 1e-12):
            return current
        current, best = changed[place], float(found[place])
