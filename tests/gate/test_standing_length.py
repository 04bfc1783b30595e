import pytest
from fleets import verdict_data, write_verdict
from hand_made import cost_model

from lora_spec.gate.fleet_verdicts import read_fleet
from lora_spec.gate.standing_length import standing_length


def _read(tmp_path, rates, **how):
    (verdict,) = read_fleet([write_verdict(tmp_path, "a", verdict_data("a", rates, **how))])
    return verdict


def test_the_length_at_the_standing_depth_is_found_from_a_verdict_on_another_depth(tmp_path):
    data = verdict_data("a", 0.4, below=0.01, above=0.02)
    expected = 1 + 0.4 + 0.4**2 + 0.4**3
    (verdict,) = read_fleet([write_verdict(tmp_path, "a", data)])
    assert verdict.action == "amber"
    found = standing_length(verdict, cost_model())
    assert found.estimate == pytest.approx(expected)
    assert (found.lower, found.upper) == pytest.approx((expected - 0.01, expected + 0.02))


def test_a_verdict_on_the_standing_depth_tells_it_itself(tmp_path):
    verdict = _read(tmp_path, 0.9)
    assert standing_length(verdict, cost_model()) == verdict.acceptance_length
