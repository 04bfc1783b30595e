"""Rank correlation, error and coverage, each with an interval that respects sources."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import ConfigError
from lora_spec.percentiles import percentile_interval
from lora_spec.records import Interval

Array = NDArray[np.float64]
Statistic = Callable[[Array, Array], float | None]


def spearman(predicted: Sequence[float], measured: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, ties at their mean rank; None where one side does not vary."""
    from scipy.stats import rankdata

    ranks = [rankdata(side) for side in (predicted, measured)]
    if any(np.ptp(side) == 0 for side in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


def mean_absolute_error(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Return the mean of |predicted - measured|."""
    return float(np.mean(np.abs(np.asarray(predicted) - np.asarray(measured))))


def bootstrap_interval(
    statistic: Statistic,
    predicted: Sequence[float],
    measured: Sequence[float],
    *,
    sources: Sequence[str],
    level: float,
    num_draws: int,
    seed: int,
) -> Interval | None:
    """Return a statistic of (predicted, measured) with its percentile interval over resampled sources.

    Whole sources are resampled, since adapters of one source are not independent. Draws in which the statistic is
    undefined are left out; None is returned if it is undefined on the data or on more than half of the draws.
    """
    if not len(predicted) == len(measured) == len(sources):
        raise ConfigError(
            f"{len(predicted)} predictions, {len(measured)} measurements and {len(sources)} sources do not pair up"
        )
    left, right, names = np.asarray(predicted, float), np.asarray(measured, float), np.array(sources)
    estimate = statistic(left, right)
    rows = [np.flatnonzero(names == source) for source in sorted(set(sources))]
    rng, draws = np.random.default_rng(seed), []
    for _ in range(num_draws):
        chosen = np.concatenate([rows[i] for i in rng.integers(len(rows), size=len(rows))])
        value = statistic(left[chosen], right[chosen])
        if value is not None:
            draws.append(value)
    if estimate is None or len(draws) <= num_draws / 2:
        return None
    return percentile_interval(estimate, draws, level)


def coverage(intervals: Sequence[Interval], measured: Sequence[float], *, level: float) -> Interval:
    """Return the fraction of measurements inside their intervals, with the exact binomial interval at ``level``.

    The binomial interval takes adapters as independent; with several per source it is too narrow.

    References: Clopper and Pearson 1934.
    """
    from scipy.stats import binomtest

    if not intervals:
        raise ConfigError("no intervals, no coverage; predict at least one adapter")
    hits = sum(i.lower <= value <= i.upper for i, value in zip(intervals, measured, strict=True))
    bounds = binomtest(hits, len(intervals)).proportion_ci(confidence_level=level, method="exact")
    return Interval(hits / len(intervals), float(bounds.low), float(bounds.high), level)
