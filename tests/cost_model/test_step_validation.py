import dataclasses
import json

import pytest
from known_parts import made_cells, made_loads
from known_times import estimate_of

from lora_spec.cost_model.benefit_sign import BenefitCase, judge_benefit_signs
from lora_spec.cost_model.step_fitting import fit_step_costs
from lora_spec.cost_model.step_validation import (
    benefit_cases,
    foretell_held_out,
    lengths_by_depth,
    validate_step_costs,
    verdict_lines,
)
from lora_spec.cost_model.validation import judge_tpot_error
from lora_spec.errors import MeasurementError

LENGTHS = {1: [1.2, 1.5], 2: [1.05, 1.9], 3: [1.1, 2.4]}


@pytest.fixture(scope="module")
def model():
    return fit_step_costs(made_cells(), made_loads(), num_draws=3, seed=0)


def _slowed(factor, chosen=lambda cell: True):
    return [
        dataclasses.replace(cell, step_ms=tuple(factor * step for step in cell.step_ms))
        if cell.use == "validation" and chosen(cell)
        else cell
        for cell in made_cells()
    ]


@pytest.mark.parametrize(("noise", "bar"), [(0.0, 0.08), (0.05, 0.08), (0.06, 0.09)])
def test_the_bar_is_the_larger_of_eight_percent_and_the_noise_by_half_again(noise, bar):
    assert judge_tpot_error([(1.0, 1.0)], run_to_run_noise=noise).bar == pytest.approx(bar)


@pytest.mark.parametrize(("predicted", "is_met"), [(108.0, True), (108.1, False), (92.0, True), (91.9, False)])
def test_an_error_at_the_bar_is_met_and_one_beyond_it_is_not(predicted, is_met):
    verdict = judge_tpot_error([(predicted, 100.0)], run_to_run_noise=0.0)
    assert verdict.is_met is is_met
    assert verdict.mean_relative_error == pytest.approx(abs(predicted / 100 - 1))


def test_errors_are_averaged_without_sign():
    verdict = judge_tpot_error([(110.0, 100.0), (90.0, 100.0)], run_to_run_noise=0.0)
    assert verdict.mean_relative_error == pytest.approx(0.1)
    assert (verdict.num_pairs, verdict.is_met) == (2, False)


@pytest.mark.parametrize("pairs", [[], [(1.0, 0.0)]])
def test_without_measured_times_nothing_is_judged(pairs):
    with pytest.raises(MeasurementError, match="positive measured"):
        judge_tpot_error(pairs, run_to_run_noise=0.0)


def _case(measured_gain, predicted_gain):
    return BenefitCase(1.0, 100.0, 100.0 * (1 + predicted_gain), 100.0, 100.0 * (1 + measured_gain))


def test_cases_inside_the_dead_band_do_not_count():
    verdict = judge_benefit_signs([_case(0.029, -0.5), _case(-0.029, 0.5), _case(0.031, 0.1)])
    assert (verdict.num_cases, verdict.num_in_dead_band, verdict.num_right) == (1, 2, 1)


@pytest.mark.parametrize(("num_wrong", "is_met"), [(1, True), (2, False)])
def test_nineteen_of_twenty_signs_are_enough(num_wrong, is_met):
    cases = [_case(0.2, -0.1)] * num_wrong + [_case(-0.2, -0.1)] * (20 - num_wrong)
    verdict = judge_benefit_signs(cases)
    assert (verdict.share_right, verdict.is_met) == (pytest.approx(1 - num_wrong / 20), is_met)


def test_nothing_outside_the_dead_band_is_no_answer():
    verdict = judge_benefit_signs([_case(0.0, 0.0)])
    assert (verdict.share_right, verdict.is_met) == (None, None)


def test_held_out_steps_are_foretold_exactly_by_true_prices(model):
    payload = validate_step_costs(made_cells(), made_loads(), model, acceptance_lengths=LENGTHS)
    assert payload["step_error"]["mean_relative_error"] == pytest.approx(0.0, abs=1e-6)
    assert payload["step_error"]["is_met"]
    assert payload["benefit_sign"]["share_right"] == 1.0
    assert set(payload["step_error_by_kind"]) == {"decode", "mixed", "prefill", "no_drafter", "no_lora"}
    assert payload["adapter_loads"] == [
        pytest.approx(
            {
                "lora_rank": 4,
                "predicted_load_ms": 26.0,
                "measured_load_ms": 26.0,
                "predicted_place_ms": 6.0,
                "measured_place_ms": 6.0,
            }
        )
    ]
    json.dumps(payload, allow_nan=False)


def test_steps_slower_than_foretold_miss_the_bar_by_their_error(model):
    payload = validate_step_costs(_slowed(1.25), made_loads(), model, acceptance_lengths=LENGTHS)
    assert payload["step_error"]["mean_relative_error"] == pytest.approx(0.2)
    assert payload["step_error"]["is_met"] is False


def test_only_cells_for_validation_are_judged(model):
    steps = foretell_held_out(made_cells(), model)
    wanted = {cell.make_up for cell in made_cells() if cell.use == "validation"}
    assert {(s.arm, tuple(sorted(s.depths)), s.num_prompt_tokens, s.num_prefill_tokens) for s in steps} == wanted
    with pytest.raises(MeasurementError, match="no cell was timed"):
        foretell_held_out([cell for cell in made_cells() if cell.use == "fit"], model)


def test_benefit_is_asked_against_both_ways_of_being_off(model):
    steps = foretell_held_out(made_cells(), model)
    cases = benefit_cases(steps, {2: [1.5]})
    # Two batch sizes, each against depth 0 in the same engine and against an engine without a drafter.
    assert len(cases) == 4
    assert len({case.measured_off_ms for case in cases}) == 4


def test_a_table_that_hides_the_cost_of_drafting_gets_signs_wrong(model):
    # Speculation measured five times slower than foretold: gains turn into losses.
    lied = _slowed(5.0, lambda cell: any(cell.depths))
    verdict = validate_step_costs(lied, made_loads(), model, acceptance_lengths={3: [4.0]})["benefit_sign"]
    assert verdict["num_right"] < verdict["num_cases"]
    assert verdict["is_met"] is False


def test_a_missed_bar_is_called_missed(model):
    good, bad = (
        verdict_lines(validate_step_costs(cells, made_loads(), model, acceptance_lengths=LENGTHS))
        for cells in (made_cells(), _slowed(1.25))
    )
    assert good[0].endswith("met")
    assert bad[0].endswith("mean |error| 20.0%, bar 8.0% at run-to-run noise 0.0%: MISSED")


def test_lengths_are_those_of_the_estimates():
    assert lengths_by_depth([estimate_of([0.5, 0.25]).to_dict(), estimate_of([0.2]).to_dict()]) == {
        1: pytest.approx([1.5, 1.2]),
        2: pytest.approx([1.75]),
    }
