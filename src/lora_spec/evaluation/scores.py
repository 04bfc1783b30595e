"""Rank correlation, separation, error and coverage; none of them knows what it is a score of."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import ConfigError
from lora_spec.evaluation.resampling import Statistic, draw_sources
from lora_spec.records import Interval

Array = NDArray[np.float64]


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


def auroc(scores: Sequence[float], is_positive: Sequence[bool]) -> float | None:
    """Return P(a positive scores higher than a negative), a tie counting half; None where one class is missing.

    By the rank sum of the positives, U / (n_1 n_0): the same number as scikit-learn's ``roc_auc_score``, and quick
    enough for thousands of draws.

    References: Hanley and McNeil 1982.
    """
    from scipy.stats import rankdata

    positive = np.asarray(is_positive, dtype=bool)
    num_positive, num_negative = int(positive.sum()), int((~positive).sum())
    if not num_positive or not num_negative:
        return None
    above = rankdata(scores)[positive].sum() - num_positive * (num_positive + 1) / 2
    return float(above / (num_positive * num_negative))


def prevalence(is_positive: Sequence[bool]) -> float | None:
    """Return the share of positives, None without any adapter."""
    return float(np.mean(is_positive)) if len(is_positive) else None


def source_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted mean; with :func:`equal_source_weights` every source counts alike."""
    return float(np.average(values, weights=weights))


def equal_source_weights(sources: Sequence[str]) -> Array:
    """Return for each row 1 / (rows of its source), so that a source with many adapters weighs no more than others."""
    sizes = Counter(sources)
    return np.array([1 / sizes[source] for source in sources])


def rate_errors(predicted: Sequence[Sequence[float]], measured: Sequence[Sequence[float]]) -> Array:
    """Return each adapter's mean |predicted a_k - measured a_k| over positions; both of shape ``(n, depth)``.

    The calibration error of a_k is the mean of these, by :func:`source_mean` with every source weighing the same.

    Raises
    ------
    ConfigError
        The two are not of one shape.
    """
    left, right = np.asarray(predicted, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    if left.ndim != 2 or left.shape != right.shape:
        raise ConfigError(
            f"acceptance rates of shape {left.shape} and {right.shape} do not pair up; give both to the same depth"
        )
    return np.abs(left - right).mean(axis=1)


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

    See :mod:`lora_spec.evaluation.resampling`, which also keeps the draws, to compare two predictors on the same.
    """
    draws = draw_sources(sources, num_draws=num_draws, seed=seed)
    return draws.resample(statistic, np.asarray(predicted, float), np.asarray(measured, float)).interval(level)


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
