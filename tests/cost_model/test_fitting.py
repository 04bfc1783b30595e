import dataclasses

import numpy as np
import pytest
from known_times import BATCH_SIZES, DEPTHS, make_cells

from lora_spec.cost_model.fitting import fit_cost_model
from lora_spec.cost_model.parts import PART_NAMES, fit_parts, parts_design
from lora_spec.errors import MeasurementError
from lora_spec.records import StepTimeCell

PARTS_MS = (90.0, 3.0, 8.0, 0.5)


def _cells_of_parts(*, noise: float, trials: int = 9, bump=lambda depth, batch_size: 1.0, seed: int = 0):
    """Return cells T = verify + per token * B (K + 1) + K (draft + per request * B), noisy by whole visits."""
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
    context = fit_cost_model(_cells_of_parts(noise=0.0), num_draws=5, seed=0).context
    assert context["parts"] == pytest.approx(dict(zip(PART_NAMES, PARTS_MS, strict=True)))
    assert context["relative_misfit"] == pytest.approx(0.0, abs=1e-6)


def test_no_part_is_negative_even_where_noise_would_have_it():
    design = parts_design(DEPTHS, BATCH_SIZES)
    falling = np.linspace(200, 100, len(design))
    assert (fit_parts(falling, design) >= 0).all()


def test_where_the_line_of_parts_holds_noisy_cells_share_their_strength():
    cells = _cells_of_parts(noise=0.1, seed=1)
    model = fit_cost_model(cells, num_draws=50, seed=0)
    alone = np.array([[np.median([c.step_ms for c in cells if (c.num_speculative_tokens, c.batch_size) == (k, b)])
                       for b in BATCH_SIZES] for k in DEPTHS])  # fmt: skip
    true = np.array([[_true_ms(k, b) for b in BATCH_SIZES] for k in DEPTHS])
    assert np.abs(model.median_ms / true - 1).mean() < 0.6 * np.abs(alone / true - 1).mean()


def test_where_the_line_is_wrong_the_cells_stand_for_themselves():
    def bump(depth, batch_size):
        return 1.6 if depth == 2 else 1.0

    cells = _cells_of_parts(noise=0.005, bump=bump)
    model = fit_cost_model(cells, num_draws=200, seed=0)
    assert model.context["relative_misfit"] > 0.1
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
