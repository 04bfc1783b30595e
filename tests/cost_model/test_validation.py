import pytest
from known_times import law_ms, make_cells

from lora_spec.cost_model.validation import mean_absolute_percentage_error, predict_held_out
from lora_spec.errors import MeasurementError


def test_a_linear_law_is_foretold_at_a_batch_size_not_seen():
    pairs = predict_held_out(make_cells())
    assert {pair.held_out for pair in pairs} == {"batch size 4"}
    assert mean_absolute_percentage_error(pairs) == pytest.approx(0.0, abs=1e-9)
    assert pairs[0].predicted_ms == pytest.approx(law_ms(0, 4))


def test_a_step_at_the_middle_batch_size_shows_as_its_relative_error():
    cells = [
        c if c.batch_size != 4 else type(c)(**{**c.to_dict(), "step_ms": tuple(1.25 * t for t in c.step_ms)})
        for c in make_cells()
    ]
    assert mean_absolute_percentage_error(predict_held_out(cells)) == pytest.approx(0.2)


def test_with_two_batch_sizes_trials_are_held_out_and_it_says_so():
    pairs = predict_held_out(make_cells(batch_sizes=(1, 4), drift=(1.0, 1.0, 1.2)))
    assert {pair.held_out for pair in pairs} == {"trial 0", "trial 1", "trial 2"}
    assert max(abs(pair.relative_error) for pair in pairs) == pytest.approx(1 - 1 / 1.2)


def test_nothing_to_hold_out_is_an_error():
    with pytest.raises(MeasurementError, match="more trials"):
        predict_held_out(make_cells(batch_sizes=(1, 4), trials=1))
