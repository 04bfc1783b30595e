import dataclasses

import pytest
from known_times import BATCH_SIZES, DEPTHS, law_ms, make_cells

from lora_spec.cost_model.validation import compare_with_line, held_out_error
from lora_spec.errors import MeasurementError


def test_a_linear_law_is_foretold_at_a_batch_size_not_seen():
    pairs = compare_with_line(make_cells())
    assert [(p.num_speculative_tokens, p.batch_size) for p in pairs] == [(k, b) for k in DEPTHS for b in BATCH_SIZES]
    assert {p.batch_size for p in pairs if p.is_held_out} == {4}
    assert held_out_error(pairs) == pytest.approx(0.0, abs=1e-9)
    assert pairs[1].predicted_ms == pytest.approx(law_ms(0, 4))


def test_a_bump_at_the_middle_batch_size_shows_as_its_relative_error():
    cells = [
        c if c.batch_size != 4 else dataclasses.replace(c, step_ms=tuple(1.25 * t for t in c.step_ms))
        for c in make_cells()
    ]
    assert held_out_error(compare_with_line(cells)) == pytest.approx(0.2)


def test_the_trials_spread_and_the_raw_counts_are_reported():
    pair = compare_with_line(make_cells(drift=(0.5, 1.0, 2.0), steps=7))[0]
    expected = [factor * law_ms(0, 1) for factor in (0.5, 1.0, 2.0)]
    assert [pair.lower_ms, pair.measured_ms, pair.upper_ms] == pytest.approx(expected)
    assert (pair.num_trials, pair.num_steps) == (3, 21)


def test_two_batch_sizes_hold_nothing_out_and_prove_nothing():
    pairs = compare_with_line(make_cells(batch_sizes=(1, 4)))
    assert not any(pair.is_held_out for pair in pairs)
    with pytest.raises(MeasurementError, match="third"):
        held_out_error(pairs)
