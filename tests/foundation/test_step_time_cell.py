"""Timed cells keep raw times, and refuse those that cannot be."""

import math

import pytest

from lora_spec.errors import MeasurementError
from lora_spec.step_time_cell import StepTimeCell

CELL = {
    "num_speculative_tokens": 3,
    "batch_size": 8,
    "trial": 0,
    "lora_rank": 8,
    "num_context_tokens": 64,
    "step_ms": (1.0, 2.0),
    "load_before": 0.1,
    "load_after": 0.2,
}


def test_a_cell_survives_json():
    cell = StepTimeCell(**CELL)
    assert StepTimeCell.from_dict(cell.to_dict() | {"step_ms": [1.0, 2.0]}) == cell


@pytest.mark.parametrize(
    "change",
    [
        {"num_speculative_tokens": -1},
        {"batch_size": 0},
        {"trial": -1},
        {"lora_rank": -1},
        {"step_ms": ()},
        {"step_ms": (1.0, 0.0)},
        {"step_ms": (math.inf,)},
        {"step_ms": (math.nan,)},
    ],
)
def test_a_cell_that_cannot_be_is_refused(change):
    with pytest.raises(MeasurementError, match="measure it again"):
        StepTimeCell(**CELL | change)
