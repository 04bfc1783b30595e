"""Doubts, wrong verdicts and certificates where the answer can be worked out by hand."""

import json
import math
from statistics import NormalDist

import pytest
from hand_made import SETTINGS, cost_model, estimate, geometric

from lora_spec.errors import ConfigError, ResultError
from lora_spec.gate.certification import AbstentionRule, certification, judge_predictions
from lora_spec.gate.doubt import loss_of_choice, violation_probability

RULE = AbstentionRule(max_loss=0.05, max_risk=0.1, confidence=0.9, seed=0)
ALONE = {"settings": SETTINGS, "batch_size": 1}


def _doubt(guess, depth, *, max_loss=0.05, noise=0.0):
    return violation_probability(guess, cost_model(noise=noise), depth, max_loss=max_loss, **ALONE)


def test_a_known_acceptance_leaves_no_doubt_or_nothing_else():
    sure = estimate(geometric(0.8))
    assert _doubt(sure, 3) == 0
    assert _doubt(sure, 0) == 1


def test_the_doubt_is_the_mass_of_the_interval_beyond_the_border():
    # Only K = 1 or off: off loses more than max_loss where E_1 / 1.2 > 1 / (1 - max_loss).
    settings = type(SETTINGS)(standing_num_speculative_tokens=1, candidate_depths=(0, 1))
    guess = estimate([0.2], above=0.2, below=0.2)
    found = violation_probability(guess, cost_model(), 0, settings=settings, batch_size=1, max_loss=0.05)
    border = (1.2 / 0.95 - 1.2) / 0.2 * NormalDist().inv_cdf(0.95)
    assert found == pytest.approx(1 - NormalDist().cdf(border), abs=1 / 200)


def test_doubt_grows_with_the_interval_and_with_noise_of_the_times():
    near = geometric(0.55)
    assert (
        _doubt(estimate(near, below=0.1), 3) < _doubt(estimate(near, below=0.6), 3) < _doubt(estimate(near, below=1), 3)
    )
    assert _doubt(estimate(near), 3) <= _doubt(estimate(near), 3, noise=0.3)


def test_a_loss_is_told_from_the_best_depth_up_to_the_standing():
    lengths = {0: 1.0, 1: 1.2, 2: 1.4, 3: 1.6, 4: 99.0}
    assert loss_of_choice(3, lengths, cost_model(), **ALONE) == pytest.approx(0)
    assert loss_of_choice(0, lengths | {2: 2.8}, cost_model(), **ALONE) == pytest.approx(0.5)


def _prediction(name, guess, **changes):
    return {"adapter": name, "adapter_sha256": name, "left_out": f"s-{name}", "estimate": guess.to_dict()} | changes


def _measured(name, rates, **changes):
    return {"adapter": name, "adapter_sha256": name, "estimate": estimate(rates, mode="measured").to_dict()} | changes


def _judge(predictions, measured, settings=SETTINGS):
    names = [p["adapter"] for p in predictions]
    return judge_predictions(
        predictions,
        measured,
        sources={name: f"s-{name}" for name in names},
        cost_model=cost_model(),
        settings=settings,
        rule=RULE,
    )


def test_a_verdict_is_wrong_where_its_depth_loses_at_the_measured_acceptance():
    good, bad = geometric(0.8), geometric(0.05)
    predictions = [_prediction("right", estimate(good)), _prediction("wrong", estimate(good))]
    found = _judge(predictions, [_measured("right", good), _measured("wrong", bad)])
    assert [(j.adapter, j.is_wrong, j.doubt, j.source) for j in found] == [
        ("right", False, 0, "s-right"),
        ("wrong", True, 0, "s-wrong"),
    ]


def test_out_of_distribution_is_an_infinite_doubt_whatever_the_interval_says():
    strange = estimate(geometric(0.8), is_out_of_distribution=True, reasons=(("R_OUT_OF_DISTRIBUTION", "far"),))
    (found,) = _judge([_prediction("a", strange)], [_measured("a", geometric(0.8))])
    assert math.isinf(found.doubt)


def test_an_interval_of_the_whole_possible_range_is_an_infinite_doubt():
    nothing, little = estimate(geometric(0.8), below=9, above=9), estimate(geometric(0.8), below=9)
    truths = [_measured(name, geometric(0.8)) for name in "ab"]
    doubts = [judged.doubt for judged in _judge([_prediction("a", nothing), _prediction("b", little)], truths)]
    assert [math.isinf(doubt) for doubt in doubts] == [True, False]


def test_what_was_not_measured_or_not_predicted_is_not_judged():
    good = geometric(0.8)
    zero = _prediction("zero", estimate(good), left_out=None)
    assert _judge([zero, _prediction("unmeasured", estimate(good))], [_measured("zero", good)]) == []


def test_an_adapter_without_a_source_is_a_copy_or_a_control_and_stays_out():
    good = geometric(0.8)
    found = judge_predictions(
        [_prediction(name, estimate(good)) for name in ("own", "copy")],
        [_measured(name, good) for name in ("own", "copy")],
        sources={"own": "s-own"},
        cost_model=cost_model(),
        settings=SETTINGS,
        rule=RULE,
    )
    assert [judged.adapter for judged in found] == ["own"]


def test_what_both_directions_commit_adds_up():
    good, bad = geometric(0.8), geometric(0.05)
    names = [f"a{i}" for i in range(10)]
    predictions = [_prediction(name, estimate(good)) for name in names]
    payload = certification(_judge(predictions, [_measured(n, bad if n == "a3" else good) for n in names]), RULE)
    parts = [direction["certificate"]["adapters"] for direction in payload["directions"]]
    for key in ("num_committed", "num_wrong"):
        assert payload["together"]["adapters"][key] == sum(part[key] for part in parts)


def test_other_weights_and_a_missing_load_are_refused():
    good = geometric(0.8)
    with pytest.raises(ResultError, match="weights"):
        _judge([_prediction("a", estimate(good))], [_measured("a", good, adapter_sha256="other")])
    no_load = type(SETTINGS)(standing_num_speculative_tokens=3, candidate_depths=(0, 3))
    with pytest.raises(ConfigError, match="headline"):
        _judge([_prediction("a", estimate(good))], [_measured("a", good)], no_load)


def test_the_threshold_never_comes_from_the_sources_that_certify_it():
    good, bad = geometric(0.8), geometric(0.05)
    names = [f"a{i}" for i in range(12)]
    predictions = [_prediction(name, estimate(good, below=0.02 * i)) for i, name in enumerate(names)]
    judged = _judge(predictions, [_measured(name, bad if i > 8 else good) for i, name in enumerate(names)])
    payload = certification(judged, RULE)
    assert payload["threshold"] == payload["directions"][0]["certificate"]["threshold"]
    for direction in payload["directions"]:
        assert not set(direction["chosen_on"]) & set(direction["certified_on"])
        assert direction["certificate"]["num_adapters"] == len(direction["certified_on"]) == 6
    first, second = payload["directions"]
    assert first["chosen_on"] == second["certified_on"]
    assert payload["least_certifiable"] == pytest.approx(1 - 0.1 ** (1 / 12))


def test_the_payload_is_plain_json_also_with_infinite_doubts():
    strange = estimate(geometric(0.8), is_out_of_distribution=True, reasons=(("R_OUT_OF_DISTRIBUTION", "far"),))
    predictions = [_prediction("a", strange), _prediction("b", strange)]
    judged = _judge(predictions, [_measured(name, geometric(0.8)) for name in "ab"])
    payload = certification(judged, RULE)
    assert json.loads(json.dumps(payload, allow_nan=False))["threshold"] is None
    assert payload["curve"] == []


def test_a_prediction_whose_fit_may_have_seen_the_source_is_not_judged():
    near = geometric(0.5)
    with pytest.raises(ResultError, match="made without 'elsewhere', its source is 's-a'"):
        _judge([_prediction("a", estimate(near), left_out="elsewhere")], [_measured("a", near)])


def test_counts_that_end_before_a_candidate_depth_are_refused():
    deep, shallow = geometric(0.5), geometric(0.5)[:2]
    with pytest.raises(ResultError, match="known to K=2"):
        _judge([_prediction("a", estimate(deep))], [_measured("a", shallow)])


def test_nobody_judged_is_told_as_such():
    with pytest.raises(ConfigError, match="of sources: 0; halving needs two"):
        certification([], RULE)
