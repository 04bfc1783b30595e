import json

import numpy as np
import pytest
from known_times import BATCH_SIZES, DEPTHS, ENGINE, estimate_of, law_ms, make_cells

from lora_spec.cost_model.fitting import fit_cost_model
from lora_spec.cost_model.model import CostModel
from lora_spec.errors import ConfigError, ResultError

RATES = 0.6 ** np.arange(1, 5)


def _model(**cells) -> CostModel:
    return fit_cost_model(make_cells(**cells), num_draws=300, seed=0, engine=ENGINE)


@pytest.fixture(scope="module")
def exact() -> CostModel:
    return _model()


def test_measured_cells_are_returned_as_they_are(exact):
    for depth in DEPTHS:
        for batch_size in BATCH_SIZES:
            assert exact.step_time_ms(depth, batch_size).interval.estimate == pytest.approx(law_ms(depth, batch_size))


def test_between_cells_a_linear_law_is_recovered(exact):
    for batch_size in (2, 7.5, 15):
        found = exact.step_time_ms(3, batch_size)
        assert found.interval.estimate == pytest.approx(law_ms(3, batch_size))
        assert found.reasons == ()


def test_a_cell_off_the_line_is_kept_and_the_line_is_not():
    cells = make_cells()
    bumped = [
        c if c.batch_size != 4 else type(c)(**{**c.to_dict(), "step_ms": tuple(2 * t for t in c.step_ms)})
        for c in cells
    ]
    model = fit_cost_model(bumped, num_draws=10, seed=0)
    assert model.step_time_ms(0, 4).interval.estimate == pytest.approx(2 * law_ms(0, 4))
    assert model.fitted_ms(0, 4) < model.step_time_ms(0, 4).interval.estimate


def test_speedup_is_acceptance_length_times_the_time_ratio(exact):
    for depth in DEPTHS[1:]:
        length = (1 - 0.6 ** (depth + 1)) / (1 - 0.6)
        expected = length * law_ms(0, 4) / law_ms(depth, 4)
        assert exact.speedup(estimate_of(RATES), depth, 4).interval.estimate == pytest.approx(expected)


def test_speculation_off_has_speedup_exactly_one(exact):
    interval = exact.speedup(estimate_of(RATES, spread=0.5), 0, 4).interval
    assert (interval.lower, interval.estimate, interval.upper) == (1.0, 1.0, 1.0)


def test_at_break_even_the_speedup_is_one(exact):
    for depth in DEPTHS[1:]:
        needed = exact.break_even_acceptance_length(depth, 4).interval.estimate
        rates = np.full(depth, (needed - 1) / depth)
        assert exact.speedup(estimate_of(rates), depth, 4).interval.estimate == pytest.approx(1.0)


def test_goodput_ratio_is_the_speedup(exact):
    estimate = estimate_of(RATES)
    ratio = exact.goodput(estimate, 3, 4).interval.estimate / exact.goodput(estimate, 0, 4).interval.estimate
    assert ratio == pytest.approx(exact.speedup(estimate, 3, 4).interval.estimate)
    assert exact.goodput(estimate, 0, 4).interval.estimate == pytest.approx(4 / law_ms(0, 4) * 1e3)


def test_without_time_noise_the_speedup_interval_is_the_acceptance_interval(exact):
    estimate = estimate_of(RATES, spread=0.2)
    found, length = exact.speedup(estimate, 3, 4).interval, estimate.acceptance_length(3)
    ratio = law_ms(0, 4) / law_ms(3, 4)
    assert (found.lower, found.upper) == (pytest.approx(length.lower * ratio), pytest.approx(length.upper * ratio))
    assert found.level == pytest.approx(length.level + 0.99 - 1)


def test_time_noise_widens_the_interval_and_the_estimate_stays_inside():
    widths = []
    for noise in (0.0, 0.1, 0.4):
        interval = _model(noise=noise).speedup(estimate_of(RATES), 3, 7).interval
        assert interval.lower <= interval.estimate <= interval.upper
        widths.append(interval.upper - interval.lower)
    assert widths == sorted(widths)
    assert widths[0] == pytest.approx(0.0, abs=1e-9)
    assert widths[2] > widths[1] > 0.01


def test_a_slow_trial_cancels_in_the_speedup_but_not_in_the_step_time():
    model = _model(drift=(0.7, 1.0, 1.6))
    time, ratio = model.step_time_ms(3, 4).interval, model.time_ratio(3, 4)
    assert time.upper / time.lower > 1.5
    assert ratio.upper / ratio.lower == pytest.approx(1.0)


def test_outside_the_measured_batch_sizes_it_says_so(exact):
    estimate = estimate_of(RATES)
    for found in (exact.step_time_ms(3, 32), exact.speedup(estimate, 3, 32), exact.goodput(estimate, 3, 32)):
        assert dict(found.reasons).keys() == {"R_LOAD_EXTRAPOLATED"}
    assert "1 to 16" in exact.load_reasons(32)[0][1]


def test_every_number_carries_its_context(exact):
    context = exact.speedup(estimate_of(RATES), 3, 4).context
    assert context["lora_rank"] == 8
    assert context["num_trials"] == 3
    assert context["engine"] == ENGINE
    assert (context["num_speculative_tokens"], context["batch_size"]) == (3, 4)


def test_an_unmeasured_depth_or_an_impossible_batch_is_refused(exact):
    with pytest.raises(ConfigError, match="K=7"):
        exact.step_time_ms(7, 4)
    with pytest.raises(ConfigError, match="at least 1"):
        exact.step_time_ms(1, 0.5)
    with pytest.raises(ConfigError, match="second batch size"):
        _model(batch_sizes=(4,)).step_time_ms(1, 5)


def test_a_line_that_falls_to_zero_is_not_followed_there():
    falling = CostModel((0,), (1, 2), np.array([[10.0, 5.0]]), np.array([[[10.0, 5.0]]]), {})
    with pytest.raises(ConfigError, match="falls to zero"):
        falling.step_time_ms(0, 3)


def test_it_survives_json():
    model = _model(noise=0.1)
    again = CostModel.from_dict(json.loads(json.dumps(model.to_dict(), allow_nan=False)))
    estimate = estimate_of(RATES, spread=0.1)
    assert again.speedup(estimate, 2, 7) == model.speedup(estimate, 2, 7)
    assert again.to_dict() == model.to_dict()


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(schema_version="9"),
        lambda d: d.pop("median_ms"),
        lambda d: d["batch_sizes"].pop(),
        lambda d: d["median_ms"][0].__setitem__(0, -1.0),
        lambda d: d["draws_ms"][0][0].__setitem__(0, "fast"),
        lambda d: d.update(draws_ms=[]),
        lambda d: d["median_ms"][0].__setitem__(0, float("nan")),
        lambda d: d["median_ms"][0].__setitem__(0, 10**400),
        lambda d: d.update(depths=[0, 0, 1, 2, 3]),
        lambda d: d.update(batch_sizes=[0, 4, 16]),
        lambda d: d.update(context=None),
    ],
)
def test_a_damaged_file_is_refused(exact, damage):
    data = json.loads(json.dumps(exact.to_dict()))
    damage(data)
    with pytest.raises(ResultError):
        CostModel.from_dict(data)
