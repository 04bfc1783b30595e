"""How well the cost model foretells step times that it was not fitted on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lora_spec.cost_model.fitting import fit_cost_model
from lora_spec.errors import MeasurementError
from lora_spec.records import StepTimeCell


@dataclass(frozen=True)
class StepTimePair:
    """A step time beside its prediction; ``held_out`` names what the fit did not see."""

    num_speculative_tokens: int
    batch_size: int
    held_out: str
    predicted_ms: float
    measured_ms: float

    @property
    def relative_error(self) -> float:
        """Return (predicted - measured) / measured."""
        return (self.predicted_ms - self.measured_ms) / self.measured_ms


def predict_held_out(cells: Sequence[StepTimeCell]) -> tuple[StepTimePair, ...]:
    """Predict every cell from a fit without it.

    Batch sizes inside the measured range are left out one at a time where there are at least three: that tests the
    line. Otherwise trials are left out one at a time: that tests repeatability only, and ``held_out`` says so.

    Raises
    ------
    MeasurementError
        There are neither three batch sizes nor two trials.
    """
    batch_sizes, trials = sorted({cell.batch_size for cell in cells}), sorted({cell.trial for cell in cells})
    if len(batch_sizes) >= 3:
        groups = [("batch size", "batch_size", size) for size in batch_sizes[1:-1]]
    elif len(trials) >= 2:
        groups = [("trial", "trial", trial) for trial in trials]
    else:
        raise MeasurementError("one trial at fewer than three batch sizes holds nothing out; measure more trials")
    pairs: list[StepTimePair] = []
    for word, attribute, value in groups:
        inside = [cell for cell in cells if getattr(cell, attribute) != value]
        outside = [cell for cell in cells if getattr(cell, attribute) == value]
        pairs.extend(_predict_cells(inside, outside, held_out=f"{word} {value}"))
    return tuple(pairs)


def _predict_cells(
    inside: Sequence[StepTimeCell], outside: Sequence[StepTimeCell], *, held_out: str
) -> list[StepTimePair]:
    model = fit_cost_model(inside, num_draws=1, seed=0)
    pairs = []
    for depth, batch_size in sorted({(cell.num_speculative_tokens, cell.batch_size) for cell in outside}):
        matching = [c for c in outside if (c.num_speculative_tokens, c.batch_size) == (depth, batch_size)]
        measured = float(np.median([np.median(cell.step_ms) for cell in matching]))
        predicted = model.step_time_ms(depth, batch_size).interval.estimate
        pairs.append(StepTimePair(depth, batch_size, held_out, predicted, measured))
    return pairs


def mean_absolute_percentage_error(pairs: Sequence[StepTimePair]) -> float:
    """Return the mean of |relative error| as a fraction."""
    return float(np.mean([abs(pair.relative_error) for pair in pairs]))
