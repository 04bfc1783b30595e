import pytest
from hand_made import CONTEXT, DEPTHS, cost_model, estimate, geometric

from lora_spec.errors import ConfigError, ResultError
from lora_spec.gate.fleet import decide_fleet

GATE = {
    "standing_num_speculative_tokens": 3,
    "candidate_depths": list(DEPTHS),
    "headline_load": {"batch_size": 1, "num_context_tokens": 64},
    "map_batch_sizes": [1, 16],
    "max_green_loss": 0.03,
    "dead_band": 0.03,
    "hot_traffic_share": 0.2,
    "default_traffic_share": 0.0,
}
BASE = estimate(geometric(0.8), mode="measured").to_dict()


def _features(name: str, **changes) -> dict:
    adapter = {"name": name, "weights_sha256": f"sha-{name}"}
    return {"adapter": adapter, "status": "ok", "codes": [], "message": "", "columns": {}} | changes


def _measured(name: str, rates) -> dict:
    found = estimate(rates, mode="measured").to_dict()
    return {"adapter": name, "adapter_sha256": f"sha-{name}", "estimate": found, "base_estimate": BASE}


def _predictions(**by_name) -> dict:
    items = [
        {
            "adapter": name,
            "adapter_sha256": f"sha-{name}",
            "left_out": f"source-{name}",
            "predictor_sha256": "t",
            "estimate": guess.to_dict(),
        }
        for name, guess in by_name.items()
    ]
    return {"context": {"mode": "checkpoint_only", "target_model": "target"}, "predictions": items}


def _decide(features, measured, predictions, **options):
    return decide_fleet(
        features,
        measured,
        predictions,
        cost_model=cost_model().to_dict(),
        gate=GATE,
        context={"tier": "mini"},
        provenance={"seed": 0},
        **options,
    )


def test_each_adapter_gets_a_measured_and_a_predicted_verdict_side_by_side():
    verdicts = _decide(
        [_features("good"), _features("bad")],
        [_measured("good", geometric(0.8)), _measured("bad", geometric(0.05))],
        _predictions(good=estimate(geometric(0.8), below=3, above=3), bad=estimate(geometric(0.05))),
    )
    assert [(v.adapter["name"], v.mode, v.action) for v in verdicts] == [
        ("good", "measured", "green"),
        ("good", "checkpoint_only", "abstain"),
        ("bad", "measured", "red"),
        ("bad", "checkpoint_only", "red"),
    ]
    assert verdicts[1].predictor_sha256 == "t"
    assert verdicts[0].predictor_sha256 is None
    assert verdicts[1].speedup_context["left_out"] == "source-good"
    assert verdicts[0].speedup_context["tier"] == "mini"
    assert verdicts[0].speedup_context["lora_rank"] == CONTEXT["lora_rank"]


def test_an_adapter_nobody_could_predict_abstains_with_the_inspections_codes():
    features = _features("odd", status="abstain", codes=["A_DORA"], message="rescaled by a magnitude")
    truth, guess = _decide([features], [_measured("odd", geometric(0.8))], _predictions())
    assert truth.action == "green"
    assert ("A_DORA", "rescaled by a magnitude") in truth.reasons
    assert (guess.action, guess.reasons) == ("abstain", (("A_DORA", "rescaled by a magnitude"),))


def test_traffic_shares_reach_the_right_adapter():
    bad = geometric(0.05)
    verdicts = _decide(
        [_features("hot"), _features("cold")],
        [_measured("hot", bad), _measured("cold", bad)],
        _predictions(hot=estimate(bad), cold=estimate(bad)),
        traffic_shares={"hot": 0.9},
    )
    assert [v.drafter for v in verdicts] == ["adapt", "adapt", "disable", "disable"]


def test_a_measured_adapter_without_features_is_refused():
    with pytest.raises(ConfigError, match="'ghost'"):
        _decide([], [_measured("ghost", geometric(0.5))], _predictions())


def _study() -> tuple[list, list, dict]:
    return (
        [_features("a"), _features("b")],
        [_measured("a", geometric(0.8)), _measured("b", geometric(0.5))],
        _predictions(a=estimate(geometric(0.8)), b=estimate(geometric(0.5))),
    )


@pytest.mark.parametrize("place", ["features", "measured", "predictions"])
def test_other_weights_under_the_same_name_are_refused(place):
    features, measured, predictions = _study()
    entry = {"features": features[0]["adapter"], "measured": measured[0], "predictions": predictions["predictions"][0]}
    entry[place]["weights_sha256" if place == "features" else "adapter_sha256"] = "other"
    with pytest.raises(ResultError, match=r"adapter 'a': .* of weights sha-a|adapter 'a': .* of weights other"):
        _decide(features, measured, predictions)


@pytest.mark.parametrize("place", ["features", "measured acceptances", "predictions"])
def test_an_adapter_that_stands_twice_is_refused(place):
    features, measured, predictions = _study()
    lists = {"features": features, "measured acceptances": measured, "predictions": predictions["predictions"]}
    lists[place].append(lists[place][0])
    with pytest.raises(ResultError, match=f"'a' stands twice among the {place}"):
        _decide(features, measured, predictions)


def test_a_guess_never_stands_in_for_a_measurement():
    features, measured, predictions = _study()
    measured[0]["estimate"]["mode"] = "checkpoint_only"
    with pytest.raises(ResultError, match="'checkpoint_only' where 'measured' belongs"):
        _decide(features, measured, predictions)


def test_a_measurement_never_stands_in_for_a_guess():
    features, measured, predictions = _study()
    predictions["predictions"][1]["estimate"]["mode"] = "measured"
    with pytest.raises(ResultError, match=r"'b'.* 'measured' where 'checkpoint_only' belongs"):
        _decide(features, measured, predictions)


def test_a_cost_model_of_another_pair_is_refused():
    features, measured, predictions = _study()
    timed = cost_model().to_dict()
    timed["context"] = {**timed["context"], "engine": {"target": "another"}}
    with pytest.raises(ConfigError, match="predictor is for target target, the cost model was timed with another"):
        decide_fleet(
            features, measured, predictions, cost_model=timed, gate=GATE, context={"tier": "mini"}, provenance={}
        )
