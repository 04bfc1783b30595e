"""How likely a verdict is to be wrong, from its own intervals: the doubt by which verdicts are committed or not."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.model import CostModel
from lora_spec.gate.actions import losses_of
from lora_spec.gate.along import equally_likely_positions, lengths_along
from lora_spec.gate.settings import GateSettings
from lora_spec.records import AcceptanceEstimate

Array = NDArray[np.float64]

_NUM_POSITIONS = 200


def violation_probability(
    estimate: AcceptanceEstimate,
    cost_model: CostModel,
    depth: int,
    *,
    settings: GateSettings,
    batch_size: float,
    max_loss: float,
) -> float:
    """Return how likely ``depth`` is to lose more than ``max_loss`` of goodput to the best one up to the standing.

    The acceptance lengths follow their intervals as two half-normals that meet at the estimate, each interval end at
    its quantile, all depths together (an adapter that is worse than thought at one depth is worse at all), cut off at 1
    and K + 1; step-time ratios follow the cost model's paired draws. It orders verdicts by how doubtful they are; how
    often verdicts of some doubt are wrong is for :mod:`lora_spec.evaluation.selective` to count.
    """
    positions = equally_likely_positions(estimate.level, _NUM_POSITIONS)
    lengths = lengths_along(estimate, positions, settings.rivals)
    # Every position meets every draw: (positions, draws).
    speedups = {k: lengths[k][:, None] * cost_model.time_ratio_draws(k, batch_size) for k in settings.rivals}
    return float(np.mean(losses_of(depth, speedups, settings) > max_loss))


def loss_of_choice(
    depth: int, estimates: Mapping[int, float], cost_model: CostModel, *, settings: GateSettings, batch_size: float
) -> float:
    """Return the share of goodput that ``depth`` loses where the acceptance lengths are known, E_K by depth."""
    speedups = {k: np.array(estimates[k] * cost_model.time_ratio(k, batch_size).estimate) for k in settings.rivals}
    return float(losses_of(depth, speedups, settings))
