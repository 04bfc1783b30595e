"""Which adapters are faster than others that accept more, each at its best depth, and where that is clear.

Step times are shared: two adapters are compared on the same draws of them, so that what the machine did in an hour
cancels (all of it where both stand at the same depth, or where both are off). Acceptance is each adapter's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.model import CostModel
from lora_spec.gate.along import equally_likely_positions, lengths_along
from lora_spec.percentiles import percentile_interval
from lora_spec.records import AcceptanceEstimate, Interval

Array = NDArray[np.float64]

_LEAST_DRAWS = 4000
"""A resolution: the ends of a 90 % interval then have about 200 draws beyond each."""


@dataclass(frozen=True)
class BestSpeedup:
    """An adapter's speedup at its best depth: the depth that is best at the estimates, and draws over which it varies.

    Parameters
    ----------
    draws
        The best speedup of each draw, whichever depth that takes; shape ``(num_draws,)``.
    """

    num_speculative_tokens: int
    interval: Interval
    draws: Array


@dataclass(frozen=True)
class Overtaking:
    """How often one adapter is faster than one that accepts more (won), or slower than one that accepts less (lost).

    Clear are those where the ratio of the two speedups differs from 1 beyond its interval.
    """

    num_won: int
    num_lost: int
    num_clear_won: int
    num_clear_lost: int


def best_speedups(
    estimates: Mapping[str, AcceptanceEstimate],
    cost_model: CostModel,
    *,
    depths: Sequence[int],
    batch_size: float,
    level: float,
    seed: int,
) -> dict[str, BestSpeedup]:
    """Return every adapter's best speedup at one load, draw i being the same draw of the step times for all.

    An adapter's lengths follow their intervals as in :mod:`lora_spec.gate.doubt`, moving together over its depths and
    apart from other adapters'.
    """
    ratios = {k: cost_model.time_ratio_draws(k, batch_size) for k in depths}
    num_draws = max(_LEAST_DRAWS, *(len(draws) for draws in ratios.values()))
    ratios = {k: np.resize(draws, num_draws) for k, draws in ratios.items()}
    rng = np.random.default_rng(seed)
    found = {}
    for name, estimate in estimates.items():
        positions = rng.permutation(equally_likely_positions(estimate.level, num_draws))
        lengths = lengths_along(estimate, positions, depths)
        draws = np.max([lengths[k] * ratios[k] for k in depths], axis=0)
        at_estimate = {k: cost_model.speedup(estimate, k, batch_size).interval.estimate for k in depths}
        depth = max(depths, key=lambda k: (at_estimate[k], -k))
        found[name] = BestSpeedup(depth, percentile_interval(at_estimate[depth], draws, level), draws)
    return found


def count_overtaking(
    acceptance_lengths: Mapping[str, float], best: Mapping[str, BestSpeedup], *, level: float
) -> dict[str, Overtaking]:
    """Return the inversions of every adapter at one load; a tie in acceptance or in speedup is none."""
    counts = {name: [0, 0, 0, 0] for name in best}
    for slow in best:
        for fast in best:
            accepts_more = acceptance_lengths[slow] > acceptance_lengths[fast]
            if not (accepts_more and best[slow].interval.estimate < best[fast].interval.estimate):
                continue
            is_clear = faster_ratio(best[fast], best[slow], level=level).lower > 1
            for name, place in ((fast, 0), (slow, 1)):
                counts[name][place] += 1
                counts[name][place + 2] += int(is_clear)
    return {name: Overtaking(*numbers) for name, numbers in counts.items()}


def faster_ratio(one: BestSpeedup, other: BestSpeedup, *, level: float) -> Interval:
    """Return the speedup of one over that of the other, with its interval over the shared draws."""
    return percentile_interval(one.interval.estimate / other.interval.estimate, one.draws / other.draws, level)
