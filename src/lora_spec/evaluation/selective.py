"""Selective prediction: commit where the doubt is small, and say what risk the committed ones are certified for.

The threshold is chosen on some sources and certified on others, since a threshold flatters the data that chose it.

References: El-Yaniv and Wiener 2010 (risk against coverage); Geifman and El-Yaniv 2017 (selection with guaranteed
risk); Clopper and Pearson 1934 (the exact binomial bound).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lora_spec.errors import ConfigError


@dataclass(frozen=True)
class Judged:
    """One adapter: how doubtful its verdict is (infinite: never commit), and whether committing was wrong."""

    adapter: str
    source: str
    doubt: float
    is_wrong: bool

    def __post_init__(self) -> None:
        if math.isnan(self.doubt):
            raise ConfigError(f"adapter {self.adapter!r}: its doubt is no number; say infinity to never commit")


@dataclass(frozen=True)
class RiskPoint:
    """What committing every verdict with a doubt up to ``threshold`` gives."""

    threshold: float
    num_committed: int
    num_wrong: int


@dataclass(frozen=True)
class Bound:
    """``num_wrong`` of ``num_committed`` and the exact one-sided upper bound of the true share; None without any."""

    num_committed: int
    num_wrong: int
    upper: float | None

    def __post_init__(self) -> None:
        is_counted = 0 <= self.num_wrong <= self.num_committed and (self.upper is None) == (self.num_committed == 0)
        if not is_counted or (self.upper is not None and not self.num_wrong / self.num_committed <= self.upper <= 1):
            raise ConfigError(f"{self} cannot be: wrong ones are committed ones, and the bound is above their share")


@dataclass(frozen=True)
class Certificate:
    """What a threshold gives on data that did not choose it.

    A source counts as wrong if any of its committed verdicts is: adapters of one source tend to be wrong together, so
    the bound over adapters is too low where sources matter, and that over sources answers for a whole new source.
    """

    threshold: float | None
    num_adapters: int
    num_sources: int
    adapters: Bound
    sources: Bound
    confidence: float

    def __post_init__(self) -> None:
        if not 0.5 < self.confidence < 1 or (self.threshold is not None and self.threshold < 0):
            raise ConfigError(
                f"threshold {self.threshold} at confidence {self.confidence} certifies nothing: a doubt is 0 or more, "
                "and a one-sided bound needs a confidence above 0.5 and below 1"
            )

    @property
    def coverage(self) -> float:
        """Return the share of adapters whose verdict was committed."""
        return self.adapters.num_committed / self.num_adapters


def risk_curve(judged: Sequence[Judged]) -> list[RiskPoint]:
    """Return a point for every finite doubt that occurs, from the surest on."""
    doubts = sorted({item.doubt for item in judged if math.isfinite(item.doubt)})
    return [_point(judged, doubt) for doubt in doubts]


def _committed(judged: Sequence[Judged], threshold: float) -> list[Judged]:
    return [item for item in judged if item.doubt <= threshold]


def _point(judged: Sequence[Judged], threshold: float) -> RiskPoint:
    committed = _committed(judged, threshold)
    return RiskPoint(threshold, len(committed), sum(item.is_wrong for item in committed))


def choose_threshold(judged: Sequence[Judged], *, max_risk: float) -> float | None:
    """Return the largest doubt up to which at most ``max_risk`` of the committed are wrong, None where none is."""
    fitting = [point.threshold for point in risk_curve(judged) if point.num_wrong <= max_risk * point.num_committed]
    return max(fitting, default=None)


def upper_bound(num_wrong: int, num_trials: int, confidence: float) -> float | None:
    """Return the one-sided Clopper-Pearson upper bound of a share, None without trials."""
    from scipy.stats import binomtest

    if not num_trials:
        return None
    test = binomtest(num_wrong, num_trials)
    # The two-sided interval at 2 c - 1 ends where the one-sided bound at c does.
    return float(test.proportion_ci(confidence_level=2 * confidence - 1, method="exact").high)


def least_certifiable(num_trials: int, confidence: float) -> float | None:
    """Return the bound with nothing wrong, 1 - (1 - c)^(1/n): no number of trials says less than this."""
    return upper_bound(0, num_trials, confidence)


def certify(judged: Sequence[Judged], threshold: float | None, *, confidence: float) -> Certificate:
    """Return what a threshold that these data did not choose commits, and the risk that it is certified for.

    Parameters
    ----------
    threshold
        None commits nothing.

    Raises
    ------
    ConfigError
        Nothing to certify on, or a confidence at which a one-sided bound means nothing.
    """
    if not judged or not 0.5 < confidence < 1:
        raise ConfigError(
            f"{len(judged)} adapters at confidence {confidence}: certifying needs adapters, and more than 0.5"
        )
    committed = [] if threshold is None else _committed(judged, threshold)
    sources, wrong = {item.source for item in committed}, {item.source for item in committed if item.is_wrong}
    return Certificate(
        threshold=threshold,
        num_adapters=len(judged),
        num_sources=len({item.source for item in judged}),
        adapters=_bound(sum(item.is_wrong for item in committed), len(committed), confidence),
        sources=_bound(len(wrong), len(sources), confidence),
        confidence=confidence,
    )


def _bound(num_wrong: int, num_trials: int, confidence: float) -> Bound:
    return Bound(num_trials, num_wrong, upper_bound(num_wrong, num_trials, confidence))


def halve_sources(judged: Sequence[Judged], *, seed: int) -> tuple[list[Judged], list[Judged]]:
    """Return two halves that share no source; sources are dealt out in a seeded order, the larger half first.

    Raises
    ------
    ConfigError
        One source cannot be halved.
    """
    sources = sorted({item.source for item in judged})
    if len(sources) < 2:
        raise ConfigError(
            f"judged adapters: {len(judged)}, of sources: {len(sources)}; halving needs two sources, "
            "predict and measure adapters of more"
        )
    order = np.random.default_rng(seed).permutation(len(sources))
    first = {sources[i] for i in order[: (len(sources) + 1) // 2]}
    return [item for item in judged if item.source in first], [item for item in judged if item.source not in first]
