"""One load weighed: speedups with intervals, the choice, and whether the intervals leave a choice at all."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.model import CostModel
from lora_spec.errors import ConfigError
from lora_spec.gate.actions import Choice, choose, losses_of
from lora_spec.gate.along import along
from lora_spec.gate.commitment import Commitment
from lora_spec.gate.settings import GateSettings
from lora_spec.records import AcceptanceEstimate, Interval

Reason = tuple[str, str]

# Points on each half of the path from the lower ends of the acceptance lengths over the estimates to the upper ends.
_STEPS_PER_HALF = 10


@dataclass(frozen=True)
class Weighing:
    """What one load says; ``doubts`` holds the reasons to abstain, ``remarks`` those that change nothing."""

    batch_size: float
    choice: Choice
    speedups: dict[int, Interval]
    lengths: dict[int, Interval]
    doubts: tuple[Reason, ...]
    remarks: tuple[Reason, ...]

    @property
    def estimates(self) -> dict[int, float]:
        """Return the speedup estimate by depth."""
        return {depth: interval.estimate for depth, interval in self.speedups.items()}


def weigh(
    estimate: AcceptanceEstimate,
    cost_model: CostModel,
    *,
    settings: GateSettings,
    batch_size: float,
    commitment: Commitment | None = None,
) -> Weighing:
    """Weigh the candidate depths at one batch size.

    Parameters
    ----------
    commitment
        At its load its limit of the doubt stands in place of the limits on the intervals; elsewhere nothing was
        certified, and those limits stay.

    Raises
    ------
    ConfigError
        The estimate or the cost model ends before a candidate depth.
    """
    depths = sorted(set(settings.candidate_depths))
    if depths[-1] > len(estimate.acceptance_length_by_depth):
        raise ConfigError(
            f"the acceptance is known to K={len(estimate.acceptance_length_by_depth)}, candidate_depths go to "
            f"K={depths[-1]}; shorten candidate_depths or measure deeper"
        )
    costed = {depth: cost_model.speedup(estimate, depth, batch_size) for depth in depths}
    speedups = {depth: found.interval for depth, found in costed.items()}
    lengths = {depth: estimate.acceptance_length(depth) for depth in depths}
    choice = choose({depth: interval.estimate for depth, interval in speedups.items()}, settings)
    load_reasons = cost_model.load_reasons(batch_size)
    is_far = not _is_near(cost_model, batch_size, settings.max_extrapolation)
    remarks: list[Reason] = []
    if commitment is not None and commitment.batch_size == batch_size:
        depth = choice.num_speculative_tokens
        doubts, remarks = commitment.reasons(estimate, depth, cost_model, settings=settings)
    else:
        doubts = [
            *_width_doubts(lengths, speedups, settings),
            *_spanning_doubts(choice, lengths, cost_model, settings=settings, batch_size=batch_size),
        ]
    if is_far:
        doubts = [*load_reasons, *doubts]
    else:
        remarks = [*load_reasons, *remarks]
    return Weighing(batch_size, choice, speedups, lengths, tuple(doubts), tuple(remarks))


def _is_near(cost_model: CostModel, batch_size: float, factor: float) -> bool:
    return min(cost_model.batch_sizes) / factor <= batch_size <= factor * max(cost_model.batch_sizes)


def _positions() -> NDArray[np.float64]:
    """Return where in its interval the acceptance may be: -1 lower end, 0 estimate, 1 upper end.

    An adapter that is worse than thought at one depth is worse at all: the lengths move together.
    """
    return np.linspace(-1, 1, 2 * _STEPS_PER_HALF + 1)


def _width_doubts(
    lengths: dict[int, Interval], speedups: dict[int, Interval], settings: GateSettings
) -> Iterator[Reason]:
    standing = settings.standing_num_speculative_tokens
    limits = (
        ("acceptance length", lengths[standing], settings.max_acceptance_length_width),
        ("speedup", speedups[standing], settings.max_speedup_width),
    )
    for name, interval, limit in limits:
        width = interval.upper - interval.lower
        if limit is not None and width > limit:
            yield (
                "R_INTERVAL_TOO_WIDE",
                f"the {name} at K={standing} is known to {interval.lower:.2f} to {interval.upper:.2f} only "
                f"(level {interval.level:.2f}): {width:.2f} wide, at most {limit:g} allowed",
            )


def _spanning_doubts(
    choice: Choice,
    lengths: dict[int, Interval],
    cost_model: CostModel,
    *,
    settings: GateSettings,
    batch_size: float,
) -> Iterator[Reason]:
    """Doubt where the choice at the estimates could cost too much somewhere in what is not known.

    At every acceptance in its interval the loss must be small in all but the worst draws of the step times, the same
    draws at every depth: a slow minute of the machine cancels in the ratios.
    """
    ratios = {depth: cost_model.time_ratio_draws(depth, batch_size) for depth in lengths}
    standing = lengths[settings.standing_num_speculative_tokens]
    quantile = (1 + standing.level) / 2
    worst, found = 0.0, set()
    for position in _positions():
        speedups = {k: along(lengths[k], position) * ratios[k] for k in lengths}
        losses = losses_of(choice.num_speculative_tokens, speedups, settings)
        worst = max(worst, float(np.quantile(losses, quantile)))
        found |= {choose({k: float(speedups[k][i]) for k in lengths}, settings) for i in _spread(losses, quantile)}
    if worst <= settings.max_interval_loss:
        return
    names = sorted({f"{c.action} (K={c.num_speculative_tokens})" for c in {choice, *found}})
    yield (
        "R_INTERVAL_SPANS_ACTIONS",
        f"with an acceptance length at K={settings.standing_num_speculative_tokens} anywhere in {standing.lower:.2f} "
        f"to {standing.upper:.2f} (level {standing.level:g}) the best choice at batch size {batch_size:g} is any of "
        f"{', '.join(names)}; K={choice.num_speculative_tokens} could lose {worst:.0%} of goodput, "
        f"{settings.max_interval_loss:.0%} is allowed",
    )


def _spread(losses: NDArray[np.float64], quantile: float) -> NDArray[np.int64]:
    """Return the places of the least, the middle and the worst loss that still counts."""
    order = np.argsort(losses)
    return order[[0, len(order) // 2, min(len(order) - 1, int(quantile * len(order)))]]
