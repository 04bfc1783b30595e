from dataclasses import asdict, replace

import pytest
from linear_law import make_examples, make_tables, true_rates

from lora_spec.errors import PredictorError, ResultError
from lora_spec.predictors.columns import CheckpointOnlyColumns
from lora_spec.predictors.held_out import fit_and_hold_out
from lora_spec.predictors.prediction import predict
from lora_spec.records import AcceptanceEstimate

GATE = {
    "level": 0.8,
    "standing_num_speculative_tokens": 3,
    "predictor": {
        "model": "elastic_net",
        "mode": "checkpoint_only",
        "elastic_net": {"penalties": [1e-4], "l1_ratios": [0.5]},
        "num_folds": 5,
        "min_adapters": 5,
        "min_trials_per_position": 30,
        "max_ood_quantile": 0.95,
    },
}


def _run(features, records, sources):
    return fit_and_hold_out(features, records, gate=GATE, sources=sources, target_model="target", draft_model="drafter")


def test_every_adapter_is_predicted_once_without_its_source():
    features, records, sources = make_tables()
    predictions = _run(features, records, sources).predictions["predictions"]
    assert sorted(item["adapter"] for item in predictions) == sorted(sources)
    assert all(item["left_out"] == sources[item["adapter"]] for item in predictions)
    assert {item["num_training_adapters"] for item in predictions} == {10}


def test_a_held_out_prediction_does_not_move_with_its_own_sources_truth():
    features, records, sources = make_tables()
    before = _run(features, records, sources).predictions["predictions"]
    target = before[0]["adapter"]
    others = next(r.records for r in records if sources[r.adapter] != sources[target])
    changed = [replace(r, records=others) if sources[r.adapter] == sources[target] else r for r in records]
    after = _run(features, changed, sources).predictions["predictions"]
    assert after[0] == before[0]
    assert after[-1] != before[-1]


def test_the_exported_predictor_predicts_the_law_and_estimates_survive_json():
    features, records, sources = make_tables()
    found = _run(features, records, sources)
    columns = CheckpointOnlyColumns.from_groups(features[0]["columns"])
    truth = make_examples(6, 2)[0].counts_by_depth[2].acceptance_length
    assert predict(found.predictor, columns).acceptance_length(3).estimate == pytest.approx(truth, abs=0.01)
    estimate = AcceptanceEstimate.from_dict(found.predictions["predictions"][0]["estimate"])
    assert asdict(estimate.acceptance_length(3)).keys() == {"estimate", "lower", "upper", "level"}


def test_adapters_that_are_not_plain_teach_nothing_and_are_listed():
    features, records, sources = make_tables()
    features[3] |= {"status": "abstain", "codes": ["A_DORA"], "columns": {}}
    found = _run(features, records, sources).predictions
    name = features[3]["adapter"]["name"]
    assert found["excluded"] == [{"adapter": name, "codes": ["A_DORA"]}]
    assert name not in {item["adapter"] for item in found["predictions"]}


def test_a_zero_update_teaches_nothing_and_is_predicted_as_the_base():
    features, records, sources = make_tables()
    plain = _run(features[:3] + features[4:], records[:3] + records[4:], sources)
    features[3] |= {"codes": ["N_ZERO_UPDATE"]}
    found = _run(features, records, sources)
    assert found.predictor == plain.predictor
    name = features[3]["adapter"]["name"]
    (item,) = [item for item in found.predictions["predictions"] if item["adapter"] == name]
    estimate = AcceptanceEstimate.from_dict(item["estimate"])
    assert estimate.acceptance_rate_per_pos == pytest.approx(true_rates(0.0), abs=1e-4)
    assert (estimate.acceptance_length(3).lower, estimate.acceptance_length(3).upper) == (1.0, 4.0)
    assert not estimate.is_out_of_distribution


def test_features_without_a_record_or_a_source_are_refused_by_name():
    features, records, sources = make_tables()
    with pytest.raises(PredictorError, match="acceptance record"):
        _run(features, records[1:], sources)
    sources.pop(features[0]["adapter"]["name"])
    with pytest.raises(PredictorError, match="no source"):
        _run(features, records, sources)


@pytest.mark.parametrize("codes", [[], ["N_ZERO_UPDATE"]])
def test_counts_of_other_weights_are_refused_even_for_an_adapter_that_teaches_nothing(codes):
    features, records, sources = make_tables()
    features[3]["codes"] = codes
    features[3]["adapter"]["weights_sha256"] = "other"
    with pytest.raises(ResultError, match=f"'{features[3]['adapter']['name']}': the features are of weights other"):
        _run(features, records, sources)


def test_an_adapter_given_twice_is_refused():
    features, records, sources = make_tables()
    with pytest.raises(ResultError, match="stands twice among the acceptance records"):
        _run(features, [*records, records[2]], sources)
    with pytest.raises(ResultError, match="stands twice among the features"):
        _run([*features, features[2]], records, sources)


def test_counts_without_features_are_not_left_out_in_silence():
    features, records, sources = make_tables()
    with pytest.raises(ResultError, match="'adapter-3' has counts but no features"):
        _run(features[:3] + features[4:], records, sources)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e200])
def test_a_finite_column_whose_square_is_not_is_refused_by_adapter_and_column(value):
    features, records, sources = make_tables()
    features[3]["columns"]["checkpoint_only"]["column_2"] = value
    with pytest.raises(PredictorError, match=r"'column_2' holds .* for adapter 'adapter-3': too large"):
        _run(features, records, sources)


def test_counts_short_of_the_standing_depth_are_refused_with_both_depths():
    features, records, sources = make_tables()
    gate = GATE | {"standing_num_speculative_tokens": 5}
    with pytest.raises(PredictorError, match="measured to depth 4, the standing depth is 5"):
        fit_and_hold_out(features, records, gate=gate, sources=sources, target_model="t", draft_model="d")


def test_what_is_too_little_once_a_source_is_left_out_says_so():
    features, records, sources = make_tables(num_sources=3)
    with pytest.raises(PredictorError, match="without source 'source-0': 4 adapters of 2 sources"):
        _run(features, records, sources)


def test_nothing_that_teaches_is_told_as_such():
    features, records, sources = make_tables()
    for item in features:
        item["codes"] = ["N_ZERO_UPDATE"]
    with pytest.raises(PredictorError, match="0 adapters of 0 sources"):
        _run(features, records, sources)
