"""A whole comparison on made-up adapters whose acceptance falls with their norm."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hand_made import cost_model

from lora_spec.config import read_config
from lora_spec.config.gate import GateConfig
from lora_spec.errors import PredictorError, ResultError
from lora_spec.evaluation import spearman
from lora_spec.gate.predictor_comparison import compare_predictors
from lora_spec.gate.predictor_comparison_payload import read_comparison
from lora_spec.predictors.smoke import PER_SOURCE, make_up_adapters, without_search
from lora_spec.results import write_result

NUM_SOURCES = 10
CONTEXT = {"target_model": "made-up target", "draft_model": "made-up drafter"}


@pytest.fixture(scope="module")
def gate():
    """Return gate.yaml's values with short grids, few draws, and base counts from the only prompts there are."""
    values = without_search(read_config(Path(__file__).parents[2] / "configs" / "gate.yaml", GateConfig).to_dict())
    short = {"num_bootstrap_draws": 60, "num_permutations": 199, "base_prompt_set": "own"}
    # The last penalty of the grid leaves nothing but the mean.
    predictor = {**values["predictor"], "elastic_net": {"penalties": [0.01], "l1_ratios": [0.5]}}
    predictor["gradient_boosting"] = {**predictor["gradient_boosting"], "num_trees": [20]}
    return {**values, "predictor": predictor, "comparison": {**values["comparison"], **short}}


def _compare(gate, *, scored=None, alter=lambda item: item, ratios=None):
    made = make_up_adapters(seed=1, num_sources=NUM_SOURCES)
    return compare_predictors(
        [alter(item) for item in made.features],
        made.records,
        cost_model(ratios or {1: (1, 1.2, 1.4, 1.75, 1.9), 8: (1, 1.3, 1.6, 1.85, 2.4)}),
        gate=gate,
        sources=made.sources,
        scored=list(made.sources) if scored is None else scored,
        context=CONTEXT,
    )


@pytest.fixture(scope="module")
def whole(gate):
    return _compare(gate)


def _find(payload, predictor, mode):
    (found,) = [c for c in payload["contenders"] if (c["predictor"], c["mode"]) == (predictor, mode)]
    return found


def test_a_result_is_read_back_as_it_was_written_and_a_damaged_one_is_refused(whole, tmp_path):
    path = tmp_path / "comparison.json"
    how = {"kind": "predictor_comparison", "evidence": "measured", "tier": "cpu", "provenance": {}}
    write_result(path, payload=whole, **how)
    again = read_comparison(path, tier="cpu").payload
    assert again == json.loads(json.dumps(whole))
    write_result(path, payload={**whole, "contenders": [{"predictor": "gam"}]}, **how)
    with pytest.raises(ResultError, match="missing"):
        read_comparison(path, tier="cpu")
    assert again["context"]["num_scored_adapters"] == NUM_SOURCES * PER_SOURCE
    assert again["context"]["num_sources"] == NUM_SOURCES


def test_the_scores_are_those_of_the_listed_guesses_and_truths(whole):
    truth = [item["acceptance_length"] for item in whole["adapters"]]
    for contender in whole["contenders"]:
        guesses = [contender["guesses"][item["adapter"]]["acceptance_length"] for item in whole["adapters"]]
        if contender["spearman"]:
            assert contender["spearman"]["estimate"] == pytest.approx(spearman(guesses, truth))
        assert contender["length_error"]["estimate"] == pytest.approx(np.abs(np.subtract(guesses, truth)).mean())


def test_where_the_norm_is_the_law_norm_and_predictors_find_it_and_the_recipe_does_not(whole):
    assert whole["net_loss"]["is_scored"]
    for predictor, mode in (("elastic_net", "checkpoint_only"), ("norm_ridge", None)):
        found = _find(whole, predictor, mode)
        assert found["spearman"]["lower"] > 0.3
        assert found["auroc"]["estimate"] > 0.75
        assert found["permutation_p"] == 1 / 200
    assert _find(whole, "metadata_ridge", None)["permutation_p"] > 0.05


def test_the_mean_has_an_error_and_no_order(whole):
    mean = _find(whole, "mean", None)
    assert (mean["spearman"], mean["auroc"], mean["permutation_p"]) == (None, None, None)
    assert mean["length_error"]["estimate"] > _find(whole, "norm_ridge", None)["length_error"]["estimate"]


def test_every_predictor_is_held_against_every_null_and_against_itself_on_tensors_alone(whole):
    pairs = {(d["predictor"], d["mode"], d["against"], d["against_mode"]) for d in whole["differences"]}
    assert ("gam", "checkpoint_only", "norm_ridge", None) in pairs
    assert ("gam", "checkpoint_meta", "gam", "checkpoint_only") in pairs
    assert not [pair for pair in pairs if pair[:2] == pair[2:]]
    for item in whole["differences"]:
        left, right = (_find(whole, item[p], item[m]) for p, m in (("predictor", "mode"), ("against", "against_mode")))
        expected = left[item["score"]]["estimate"] - right[item["score"]]["estimate"]
        assert item["difference"]["estimate"] == pytest.approx(expected)


def test_adapters_that_do_not_count_are_guessed_and_change_no_interval(gate, whole):
    names = [item["adapter"] for item in whole["adapters"]]
    some = _compare(gate, scored=names[:25])
    assert [item["adapter"] for item in some["adapters"] if item["is_scored"]] == names[:25]
    assert some["context"]["num_scored_adapters"] == 25
    for one, other in zip(some["contenders"], whole["contenders"], strict=True):
        assert one["guesses"] == other["guesses"]
    assert some["contenders"][0]["spearman"] != whole["contenders"][0]["spearman"]


def test_a_planted_calibration_answer_leaves_every_score_of_other_modes_alone(gate, whole):
    truth = {item["adapter"]: item["acceptance_length"] for item in whole["adapters"]}

    def plant(item):
        answer = {"calib_acceptance_length_3": truth[item["adapter"]["name"]]}
        return {**item, "columns": {**item["columns"], "checkpoint_calib": answer}}

    planted = _compare(gate, alter=plant)
    sees_it = [c for c in planted["contenders"] if c["mode"] == "checkpoint_calib" or c["predictor"] == "direct_probe"]
    assert [c for c in planted["contenders"] if c not in sees_it] == whole["contenders"]
    assert len(sees_it) == 4
    assert (planted["context"]["num_calibration_prompts"], whole["context"]["num_calibration_prompts"]) == (32, None)
    assert _find(planted, "direct_probe", None)["length_error"]["estimate"] == 0
    best = _find(planted, "elastic_net", "checkpoint_calib")
    assert best["spearman"]["estimate"] > _find(planted, "elastic_net", "checkpoint_only")["spearman"]["estimate"]


def test_without_a_load_to_ask_about_there_is_no_auroc_and_a_reason(gate):
    found = _compare(gate, ratios={1: (1, 2, 3, 4, 5), 8: (1, 2, 3, 4, 5)})
    assert found["net_loss"]["load"] is None
    assert "at no load" in found["net_loss"]["reason"]
    assert {contender["auroc"] for contender in found["contenders"]} == {None}
    assert {item["is_net_loss"] for item in found["adapters"]} == {None}


def test_too_few_sources_are_refused_with_their_number(gate):
    names = list(make_up_adapters(seed=1, num_sources=NUM_SOURCES).sources)
    with pytest.raises(PredictorError, match=r"8 separately trained adapters of 8 sources.*needs 9"):
        _compare(gate, scored=names[:8])


def test_each_step_of_the_base_ablation_is_scored_and_its_gain_is_a_difference(gate):
    rng = np.random.default_rng(0)

    def alter(item):
        base = {"base_act_log_total": rng.normal(), "base_margin_flip_share": rng.normal()}
        return {**item, "columns": {**item["columns"], "checkpoint_base": base}}

    rows = [row for row in _compare(gate, alter=alter)["base_ablation"] if row["predictor"] == "gam"]
    assert [(row["step"], row["gain"] is None) for row in rows] == [
        ("tensors", True),
        ("moments", False),
        ("margins", False),
    ]
    for before, now in itertools.pairwise(rows):
        difference = now["spearman"]["estimate"] - before["spearman"]["estimate"]
        assert now["gain"]["estimate"] == pytest.approx(difference)
