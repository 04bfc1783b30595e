"""Does what holds on one pair of models hold on another: orders compared, extremes checked, whatever comes out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lora_spec.errors import ConfigError
from lora_spec.evaluation.extremes import Chosen
from lora_spec.evaluation.scores import Array, Statistic, bootstrap_interval, spearman
from lora_spec.records import Interval


@dataclass(frozen=True)
class IntervalSettings:
    """How intervals are made: their level, draws over sources, and seed."""

    level: float
    num_draws: int
    seed: int


@dataclass(frozen=True)
class Compared:
    """A statistic, None where it is undefined, with its interval, None where too few sources define it."""

    estimate: float | None
    interval: Interval | None


@dataclass(frozen=True)
class TransferReport:
    """Rank correlations and the order of the extremes.

    ``extremes_in_order`` is the share of (worst, best) pairs of which the best is measured above the worst on the
    second pair, a tie counting half: 1 is the predicted order, 0.5 no order. ``are_all_in_order`` asks for 1.
    """

    num_adapters: int
    num_sources: int
    first_against_second: Compared
    predicted_against_first: Compared
    predicted_against_second: Compared
    extremes_in_order: Compared
    are_all_in_order: bool | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


def share_in_order(is_best: Array, measured: Array) -> float | None:
    """Return the share of (worst, best) pairs in which the best is above, ties half; None without a pair.

    It is the Mann-Whitney statistic over the number of pairs, or the area under the ROC curve.
    """
    best, worst = measured[is_best == 1], measured[is_best == 0]
    if not len(best) or not len(worst):
        return None
    difference = best[:, None] - worst[None, :]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


def compare_pairs(
    chosen: Sequence[Chosen],
    first: Mapping[str, float],
    second: Mapping[str, float],
    *,
    settings: IntervalSettings,
) -> TransferReport:
    """Return how predictions and measurements on the first pair stand to measurements on the second.

    Parameters
    ----------
    chosen
        The adapters, with their predictions from the first pair.
    first, second
        Adapter -> measured acceptance on the pair that the prediction was made for, and on the other one.

    Raises
    ------
    ConfigError
        A chosen adapter was not measured on one of the pairs.
    """
    for what, measured in (("first", first), ("second", second)):
        if missing := [item.adapter for item in chosen if item.adapter not in measured]:
            raise ConfigError(f"adapter {missing[0]!r} was chosen and is not measured on the {what} pair; measure it")
    ends = [item for item in chosen if item.group != "random"]
    order = _compared(
        share_in_order, ends, [item.group == "best" for item in ends], [second[i.adapter] for i in ends], settings
    )
    predicted = [item.predicted for item in chosen]
    ours, theirs = ([measured[item.adapter] for item in chosen] for measured in (first, second))
    return TransferReport(
        num_adapters=len(chosen),
        num_sources=len({item.source for item in chosen}),
        first_against_second=_compared(spearman, chosen, ours, theirs, settings),
        predicted_against_first=_compared(spearman, chosen, predicted, ours, settings),
        predicted_against_second=_compared(spearman, chosen, predicted, theirs, settings),
        extremes_in_order=order,
        are_all_in_order=None if order.estimate is None else order.estimate == 1,
    )


def _compared(
    statistic: Statistic,
    items: Sequence[Chosen],
    left: Sequence[float],
    right: Sequence[float],
    settings: IntervalSettings,
) -> Compared:
    if not items:
        return Compared(None, None)
    interval = bootstrap_interval(
        statistic,
        left,
        right,
        sources=[item.source for item in items],
        level=settings.level,
        num_draws=settings.num_draws,
        seed=settings.seed,
    )
    return Compared(statistic(np.asarray(left, float), np.asarray(right, float)), interval)
