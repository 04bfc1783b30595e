import dataclasses

import numpy as np
import pytest
from known_times import BATCH_SIZES, DEPTHS, make_cells

from lora_spec.cost_model.fitting import fit_cost_model
from lora_spec.cost_model.parts import PART_NAMES, fit_parts, parts_design
from lora_spec.errors import MeasurementError
from lora_spec.step_time_cell import StepTimeCell

PARTS_MS = (90.0, 3.0, 2.0, 8.0, 0.5)


def _cells_of_parts(*, noise: float, trials: int = 9, bump=lambda depth, batch_size: 1.0, seed: int = 0):
    """Return cells made of the parts, noisy by whole visits."""
    rng = np.random.default_rng(seed)
    return [
        StepTimeCell(k, b, trial, 8, 64, (_true_ms(k, b) * bump(k, b) * float(np.exp(noise * rng.normal())),), 0.1, 0.1)
        for trial in range(trials)
        for k in DEPTHS
        for b in BATCH_SIZES
    ]


def _true_ms(depth: int, batch_size: int) -> float:
    return float(parts_design([depth], [batch_size])[0] @ PARTS_MS)


def test_the_parts_of_exact_times_are_recovered():
    design = parts_design(DEPTHS, BATCH_SIZES)
    assert fit_parts(design @ PARTS_MS, design) == pytest.approx(PARTS_MS)
    model = fit_cost_model(_cells_of_parts(noise=0.0), num_draws=5, seed=0)
    assert model.context["parts"] == pytest.approx(dict(zip(PART_NAMES, PARTS_MS, strict=True)))
    assert model.relative_misfit == pytest.approx(0.0, abs=1e-6)


def test_no_part_is_negative_even_where_noise_would_have_it():
    design = parts_design(DEPTHS, BATCH_SIZES)
    falling = np.linspace(200, 100, len(design))
    assert (fit_parts(falling, design) >= 0).all()


def test_where_the_line_of_parts_holds_noisy_cells_share_their_strength():
    true = np.array([[_true_ms(k, b) for b in BATCH_SIZES] for k in DEPTHS])
    errors = []
    for seed in range(10):
        cells = _cells_of_parts(noise=0.1, seed=seed)
        steps = np.array([cell.step_ms[0] for cell in cells]).reshape(-1, *true.shape)
        alone = np.median(steps, axis=0)
        model = fit_cost_model(cells, num_draws=50, seed=0)
        errors.append([np.abs(found / true - 1).mean() for found in (model.median_ms, alone)])
    shared, single = np.mean(errors, axis=0)
    assert shared < 0.75 * single


def test_where_the_line_is_wrong_the_cells_stand_for_themselves():
    def bump(depth, batch_size):
        return 1.6 if depth == 2 else 1.0

    cells = _cells_of_parts(noise=0.005, bump=bump)
    model = fit_cost_model(cells, num_draws=200, seed=0)
    assert model.relative_misfit > 0.1
    for j, batch_size in enumerate(BATCH_SIZES):
        assert model.median_ms[2, j] == pytest.approx(1.6 * _true_ms(2, batch_size), rel=0.02)


def test_intervals_of_the_time_ratio_cover_the_truth_about_as_often_as_they_say():
    true = _true_ms(0, 16) / _true_ms(2, 16)
    num_hits = 0
    for seed in range(60):
        ratio = fit_cost_model(_cells_of_parts(noise=0.08, seed=seed), num_draws=200, seed=0).time_ratio(
            2, 16, level=0.9
        )
        num_hits += ratio.lower <= true <= ratio.upper
    assert 45 <= num_hits <= 60  # 54 are expected


def _steps_like_a_gpu(depth: int, batch_size: int) -> float:
    """Return one over the parts' line such that T doubles from 16 tokens on, as engines that pad do."""
    return (100.0 if batch_size * (depth + 1) <= 16 else 200.0) / _true_ms(depth, batch_size)


@pytest.mark.parametrize("factor", [1.0, 5.0, 1000.0])
def test_a_wild_cell_does_not_make_the_others_follow_a_line_that_is_not_theirs(factor):
    cells = _cells_of_parts(noise=0.01, bump=_steps_like_a_gpu)
    wild = [
        dataclasses.replace(c, step_ms=(factor * c.step_ms[0],))
        if (c.num_speculative_tokens, c.batch_size, c.trial) == (4, 1, 3)
        else c
        for c in cells
    ]
    ratio = fit_cost_model(wild, num_draws=200, seed=0).time_ratio(2, 16, level=0.9)
    assert ratio.estimate == pytest.approx(0.5, rel=0.03)
    assert ratio.lower <= 0.5 <= ratio.upper


def test_a_line_that_is_nothing_at_depth_0_leaves_the_cells_alone():
    def bump(depth, batch_size):
        return (100.0, 10.0, 50.0, 80.0, 110.0)[depth] / _true_ms(depth, batch_size)

    model = fit_cost_model(_cells_of_parts(noise=0.001, bump=bump), num_draws=20, seed=0)
    assert model.median_ms[:, 0] == pytest.approx([100.0, 10.0, 50.0, 80.0, 110.0], rel=0.01)


def test_two_trials_are_too_few():
    with pytest.raises(MeasurementError, match="2 trials of step times: fewer than 3"):
        fit_cost_model(make_cells(trials=2), num_draws=10, seed=0)


@pytest.mark.parametrize("step_ms", [1e-320, 1e300])
def test_a_time_that_no_step_takes_is_refused_before_it_is_reckoned_with(step_ms):
    cells = make_cells()
    cells[4] = dataclasses.replace(cells[4], step_ms=(step_ms,))
    with pytest.raises(MeasurementError, match="no step takes so little or so long"):
        fit_cost_model(cells, num_draws=10, seed=0)


def test_one_bad_trial_of_nine_leaves_a_cell_where_it_was():
    cells = _cells_of_parts(noise=0.01)
    hit = [
        dataclasses.replace(c, step_ms=(5 * c.step_ms[0],)) if c.trial == 3 and c.batch_size == 4 else c for c in cells
    ]
    kept, moved = (fit_cost_model(one, num_draws=50, seed=0).median_ms for one in (cells, hit))
    assert moved == pytest.approx(kept, rel=0.01)


def test_a_trial_that_is_slow_as_a_whole_moves_the_times_to_the_middle_trial():
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
