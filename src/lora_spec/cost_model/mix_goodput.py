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
    return _goodput((steps_per_token[..., None] * (depths[..., None] == _ladder(steps))).sum(axis=-2), steps)


def _ladder(steps: TableSteps) -> Depths:
    return np.arange(steps.max_depth + 1)


def _goodput(steps_per_token: Array, steps: TableSteps) -> Array:
    """Return tokens per ms by steps per token of all adapters of each depth, shape ``(..., K + 1)``.

    Adapters of one depth make steps of the same length: only what they add up to counts, not how many there are.
    """
    total = steps_per_token.sum(axis=-1)
    return steps.batch_size / total / steps.mean_step_ms(steps_per_token / total[..., None], _ladder(steps))


def best_depths(
    lengths: Array, shares: Array, steps: TableSteps, *, floors: Depths | None = None, ceilings: Depths | None = None
) -> Depths:
    """Return the depths of the most goodput: from several starts, adapters changed while that gains.

    At the end no change of one adapter gains. On the way as many are changed at once, the most gainful first, as gains
    most of all, half of them, a quarter and so on: a fleet of thousands then takes seconds.

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
    adapters = np.arange(len(lengths))
    ladder = _ladder(steps)
    per_token = shares[:, None] / lengths
    is_allowed = (low[:, None] <= ladder) & (ladder <= high[:, None])
    current, best = start, float(goodputs(start, lengths, shares, steps))
    while True:
        changed = _goodput(_changed_one(current, per_token), steps)
        found = np.where(is_allowed, changed, -np.inf)
        depth, most = found.argmax(axis=1), found.max(axis=1)
        gainful = np.argsort(-most, kind="stable")[: int((most > best * (1 + 1e-12)).sum())]
        if not len(gainful):
            return current
        tried = []
        while len(gainful):
            tried.append(np.where(np.isin(adapters, gainful), depth, current))
            gainful = gainful[: len(gainful) // 2]
        reached = goodputs(np.array(tried), lengths, shares, steps)
        if not reached.max() > best:  # less than sums of so many numbers can tell
            return current
        current, best = tried[int(reached.argmax())], float(reached.max())


def _changed_one(current: Depths, per_token: Array) -> Array:
    """Return steps per token by depth where one adapter is changed, shape ``(adapters, K + 1, K + 1)``."""
    is_now = current[:, None] == np.arange(per_token.shape[1])
    now = per_token * is_now
    others = np.clip(now.sum(axis=0) - now, 0.0, None)
    return others[:, None, :] + per_token[:, :, None] * np.eye(per_token.shape[1])
