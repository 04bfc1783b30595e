"""Whether verdicts cost time anywhere: every adapter at every load, against off and against the standing depth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lora_spec.cost_model.model import CostModel
from lora_spec.gate.along import equally_likely_positions, lengths_along
from lora_spec.percentiles import percentile_interval
from lora_spec.records import AcceptanceEstimate, Interval


@dataclass(frozen=True)
class LoadCell:
    """One adapter at one load, all of the batch being its requests.

    Parameters
    ----------
    gain
        TPOT at the reference depth over TPOT at the chosen one, less 1: above 0 the verdict is faster. TPOT is
        T_K(B) / E_K.
    is_below
        The whole interval lies below minus the loss that is allowed.
    """

    adapter: str
    batch_size: int
    num_speculative_tokens: int
    reference_depth: int
    gain: Interval
    is_below: bool


def judge_load_cells(
    estimates: Mapping[str, AcceptanceEstimate],
    depths: Mapping[str, Sequence[int]],
    cost_model: CostModel,
    *,
    batch_sizes: Sequence[int],
    reference_depths: Sequence[int],
    level: float,
    max_loss: float,
    seed: int,
) -> list[LoadCell]:
    """Return every adapter at every load against every reference.

    Step times vary over the cost model's draws, the same at both depths; an adapter's lengths over their interval as in
    :mod:`lora_spec.gate.doubt`, both depths together.

    Parameters
    ----------
    estimates
        Measured acceptance.
    depths
        Chosen depth at each of the batch sizes.
    """
    rng = np.random.default_rng(seed)
    num_draws = len(cost_model.draws_ms)
    cells = []
    for name, estimate in estimates.items():
        positions = rng.permutation(equally_likely_positions(estimate.level, num_draws))
        for size, chosen in zip(batch_sizes, depths[name], strict=True):
            for reference in reference_depths:
                gain = _gain(estimate, cost_model, (chosen, reference), size, positions, level)
                cells.append(LoadCell(name, size, chosen, reference, gain, gain.upper < -max_loss))
    return cells


def _gain(
    estimate: AcceptanceEstimate,
    cost_model: CostModel,
    pair: tuple[int, int],
    batch_size: int,
    positions: np.ndarray,
    level: float,
) -> Interval:
    """Return goodput at the first depth over that at the second, less 1, with its interval."""
    chosen, reference = pair
    lengths = lengths_along(estimate, positions, pair)
    ratios = {depth: cost_model.time_ratio_draws(depth, batch_size) for depth in pair}
    point = {
        depth: estimate.acceptance_length(depth).estimate * cost_model.time_ratio(depth, batch_size).estimate
        for depth in pair
    }
    draws = lengths[chosen] * ratios[chosen] / (lengths[reference] * ratios[reference])
    return percentile_interval(point[chosen] / point[reference] - 1, draws - 1, level)
