"""How well times are foretold: the line through the step times on cells left out of it, and TPOT against its bar."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lora_spec.cost_model.fitting import fit_cost_model
from lora_spec.cost_model.model import CostModel
from lora_spec.errors import MeasurementError
from lora_spec.step_time_cell import StepTimeCell


@dataclass(frozen=True)
class StepTimePair:
    """A measured step time beside the line's; ``lower_ms`` and ``upper_ms`` are the trials' extremes."""

    num_speculative_tokens: int
    batch_size: int
    num_context_tokens: int
    lora_rank: int
    measured_ms: float
    lower_ms: float
    upper_ms: float
    predicted_ms: float
    num_trials: int
    num_steps: int
    is_held_out: bool

    @property
    def relative_error(self) -> float:
        """Return (predicted - measured) / measured."""
        return (self.predicted_ms - self.measured_ms) / self.measured_ms


def compare_with_line(cells: Sequence[StepTimeCell]) -> tuple[StepTimePair, ...]:
    """Return one pair per depth and batch size, by depth, then batch size.

    A batch size between two others is predicted by a fit without it. The smallest and the largest cannot be left
    out without extrapolating: they are predicted by the fit to all cells and say so.
    """
    batch_sizes = sorted({cell.batch_size for cell in cells})
    whole = fit_cost_model(cells, num_draws=1, seed=0)
    pairs = []
    for batch_size in batch_sizes:
        is_held_out = batch_sizes[0] < batch_size < batch_sizes[-1]
        others = [cell for cell in cells if cell.batch_size != batch_size]
        model = fit_cost_model(others, num_draws=1, seed=0) if is_held_out else whole
        pairs.extend(_pair(cells, model, depth, batch_size, is_held_out=is_held_out) for depth in whole.depths)
    return tuple(sorted(pairs, key=lambda pair: (pair.num_speculative_tokens, pair.batch_size)))


def _pair(
    cells: Sequence[StepTimeCell], model: CostModel, depth: int, batch_size: int, *, is_held_out: bool
) -> StepTimePair:
    chosen = [c for c in cells if (c.num_speculative_tokens, c.batch_size) == (depth, batch_size)]
    by_trial: dict[int, list[float]] = {}
    for cell in chosen:
        by_trial.setdefault(cell.trial, []).extend(cell.step_ms)
    medians = [float(np.median(steps)) for steps in by_trial.values()]
    return StepTimePair(
        num_speculative_tokens=depth,
        batch_size=batch_size,
        num_context_tokens=max(cell.num_context_tokens for cell in chosen),
        lora_rank=chosen[0].lora_rank,
        measured_ms=float(np.median(medians)),
        lower_ms=min(medians),
        upper_ms=max(medians),
        predicted_ms=model.fitted_ms(depth, batch_size),
        num_trials=len(medians),
        num_steps=sum(map(len, by_trial.values())),
        is_held_out=is_held_out,
    )


def held_out_error(pairs: Sequence[StepTimePair]) -> float:
    """Return the mean of |relative error| over held-out pairs, as a fraction.

    Raises
    ------
    MeasurementError
        Nothing was held out: a line through two batch sizes meets both and proves nothing.
    """
    errors = [abs(pair.relative_error) for pair in pairs if pair.is_held_out]
    if not errors:
        raise MeasurementError("no batch size lies between two others: measure a third to test the cost model")
    return float(np.mean(errors))


TPOT_ERROR_BAR = 0.08
"""Mean relative error of TPOT that is allowed on a machine without noise, below 80 % of saturation."""
NOISE_FACTOR = 1.5
"""On a noisy machine so many times the run-to-run noise is allowed."""


@dataclass(frozen=True)
class ErrorVerdict:
    """A mean relative error beside its bar; all are fractions."""

    mean_relative_error: float
    run_to_run_noise: float
    bar: float
    num_pairs: int
    is_met: bool


def judge_tpot_error(pairs: Sequence[tuple[float, float]], *, run_to_run_noise: float) -> ErrorVerdict:
    """Return the mean of |predicted - measured| / measured, held against max(8 %, 1.5 x noise).

    At a given acceptance length TPOT is step time over that length, so pairs of step times judge the same.

    Parameters
    ----------
    pairs
        ``(predicted, measured)`` in one unit: held-out steps, or requests and cells of served traffic.
    run_to_run_noise
        The same error of one run foretold by the middle one of several, as a fraction.

    Raises
    ------
    MeasurementError
        No pair, or a measured time that is not positive.
    """
    if not pairs or min(measured for _, measured in pairs) <= 0 or not run_to_run_noise >= 0:
        raise MeasurementError(f"{len(pairs)} pairs of times: each needs a positive measured one; measure again")
    predicted, measured = np.array(pairs, dtype=np.float64).T
    error = float(np.mean(np.abs(predicted - measured) / measured))
    bar = max(TPOT_ERROR_BAR, NOISE_FACTOR * run_to_run_noise)
    return ErrorVerdict(error, run_to_run_noise, bar, len(pairs), error <= bar)
