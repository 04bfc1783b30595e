import dataclasses

import numpy as np
import pytest
from known_times import make_cells

from lora_spec.cost_model.fitting import fit_cost_model
from lora_spec.errors import MeasurementError


def test_a_cell_is_the_median_of_its_trials_medians():
    model = fit_cost_model(make_cells(drift=(1.0, 1.1, 9.0)), num_draws=10, seed=0)
    plain = fit_cost_model(make_cells(), num_draws=10, seed=0)
    assert model.median_ms == pytest.approx(1.1 * plain.median_ms)


def test_draws_are_reproducible_by_seed_and_centred_on_the_medians():
    cells = make_cells(noise=0.2, steps=51)
    model = fit_cost_model(cells, num_draws=400, seed=3)
    assert np.array_equal(model.draws_ms, fit_cost_model(cells, num_draws=400, seed=3).draws_ms)
    assert not np.array_equal(model.draws_ms, fit_cost_model(cells, num_draws=400, seed=4).draws_ms)
    assert np.median(model.draws_ms, axis=0) == pytest.approx(model.median_ms, rel=0.05)


def test_a_hole_in_the_grid_is_named():
    cells = [c for c in make_cells() if (c.num_speculative_tokens, c.batch_size, c.trial) != (2, 4, 1)]
    with pytest.raises(MeasurementError, match=r"K=2, batch 4: trial 1"):
        fit_cost_model(cells, num_draws=10, seed=0)


def test_ranks_are_not_mixed():
    cells = make_cells()
    cells[0] = dataclasses.replace(cells[0], lora_rank=64)
    with pytest.raises(MeasurementError, match=r"\[8, 64\]"):
        fit_cost_model(cells, num_draws=10, seed=0)
    with pytest.raises(MeasurementError):
        fit_cost_model([], num_draws=10, seed=0)


@pytest.mark.parametrize("steps", [(), (1.0, 0.0)])
def test_a_cell_without_time_is_refused(steps):
    with pytest.raises(MeasurementError, match="no steps"):
        dataclasses.replace(make_cells()[0], step_ms=steps)


def test_a_cell_that_stands_twice_is_refused():
    cells = make_cells()
    with pytest.raises(MeasurementError, match=r"trial \d: stands twice"):
        fit_cost_model([*cells, cells[0]], num_draws=10, seed=0)
