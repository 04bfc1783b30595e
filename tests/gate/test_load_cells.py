"""Verdicts against off and against the standing depth, load by load."""

import numpy as np
import pytest
from hand_made import RATIOS, cost_model, estimate, geometric

from lora_spec.gate.load_cells import judge_load_cells


def _cells(depths, *, alpha=0.5, noise=0.0, width=0.0, references=(0, 3), **fields):
    estimates = {"a": estimate(geometric(alpha), below=width, above=width)}
    asked = {"batch_sizes": (1, 16), "reference_depths": references, "level": 0.95, "max_loss": 0.02, "seed": 0}
    return judge_load_cells(estimates, {"a": depths}, cost_model(noise=noise), **(asked | fields))


def test_every_load_is_held_against_every_reference_by_hand():
    cells = _cells((1, 0))
    length = {0: 1.0, 1: 1.5, 3: 1.875}
    expected = [
        1.5 / 1.2 - 1,
        (1.5 / 1.2) / (length[3] / 1.6) - 1,
        0.0,
        1 / (length[3] / RATIOS[16][3]) - 1,
    ]
    assert [(cell.batch_size, cell.reference_depth) for cell in cells] == [(1, 0), (1, 3), (16, 0), (16, 3)]
    assert [cell.gain.estimate for cell in cells] == pytest.approx(expected)
    assert not any(cell.is_below for cell in cells)


def test_the_same_depth_gains_exactly_nothing_whatever_is_unknown():
    cells = _cells((3, 0), noise=0.2, width=0.3)
    same = [cell for cell in cells if cell.num_speculative_tokens == cell.reference_depth]
    assert len(same) == 2
    assert all((cell.gain.lower, cell.gain.upper) == (0, 0) for cell in same)


def test_a_loss_counts_only_where_the_whole_interval_is_beyond_what_is_allowed():
    sure, unsure = _cells((3, 3), references=(0,)), _cells((3, 3), noise=0.6, width=0.8, references=(0,))
    assert [cell.is_below for cell in sure] == [False, True]  # 1.875 / 2.9 at batch 16
    assert not unsure[1].is_below
    assert unsure[1].gain.upper > -0.02 > unsure[1].gain.lower
    assert not _cells((3, 3), references=(0,), max_loss=0.5)[1].is_below


def test_acceptance_moves_together_over_the_depths():
    (cell,) = _cells((2,), width=0.2, references=(3,), batch_sizes=(1,))
    lengths = np.array([1.75, 1.875])
    ends = [np.divide(*(lengths + shift)) * 1.6 / 1.4 - 1 for shift in (-0.25, 0.25)]
    assert cell.gain.upper - cell.gain.lower < 1.2 * abs(ends[1] - ends[0])
