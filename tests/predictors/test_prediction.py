import copy
import json
import subprocess
import sys

import numpy as np
import pytest
from linear_law import DEPTH, NUM_COLUMNS, columns_of, counts_of, make_examples, true_rates

from lora_spec.errors import PredictorError
from lora_spec.predictors.columns import CheckpointCalibColumns, CheckpointOnlyColumns
from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.prediction import base_estimate, is_training_adapter, mismatch, predict, zero_update_estimate


def _point(strength: float) -> np.ndarray:
    return np.array([strength, *[0.1] * (NUM_COLUMNS - 1)])


@pytest.mark.parametrize("strength", [-0.8, 0.0, 0.7])
def test_a_known_law_is_recovered_with_a_tight_interval(exported, strength):
    estimate = predict(exported, columns_of(_point(strength)))
    assert estimate.acceptance_rate_per_pos == pytest.approx(true_rates(strength), abs=5e-3)
    assert estimate.acceptance_length(3).estimate == pytest.approx(1 + true_rates(strength, 3).sum(), abs=0.02)
    assert estimate.acceptance_length(3).upper - estimate.acceptance_length(3).lower < 0.1
    assert estimate.reasons == ()


def test_intervals_hold_the_estimate_and_fall_with_depth(fit_examples):
    exported = fit_examples(make_examples(12, 2, noise=0.6))
    for seed in range(20):
        point = np.random.default_rng(seed).uniform(-1, 1, NUM_COLUMNS)
        estimate = predict(exported, columns_of(point))
        for bound in (estimate.lower, estimate.acceptance_rate_per_pos, estimate.upper):
            assert np.all(np.diff(bound) <= 0)
        assert np.all(np.array(estimate.lower) <= estimate.acceptance_rate_per_pos)
        assert np.all(np.array(estimate.upper) >= estimate.acceptance_rate_per_pos)
        for depth in range(1, DEPTH + 1):
            length = estimate.acceptance_length(depth)
            assert 1 <= length.lower <= length.estimate <= length.upper <= depth + 1


def test_seven_adapters_give_the_whole_possible_range_and_say_so(few_exported):
    estimate = predict(few_exported, columns_of(_point(0.0)))
    assert estimate.lower == (0.0,) * DEPTH
    assert estimate.upper == (1.0,) * DEPTH
    assert (estimate.acceptance_length(3).lower, estimate.acceptance_length(3).upper) == (1.0, 4.0)
    assert "R_TOO_FEW_SOURCES" in dict(estimate.reasons)


def test_fewer_adapters_than_the_gate_asks_for_claim_no_interval(fit_examples):
    examples = make_examples(12, 2)
    enough = predict(fit_examples(examples, min_adapters=24), columns_of(_point(0.0)))
    thin = predict(fit_examples(examples, min_adapters=25), columns_of(_point(0.0)))
    assert enough.reasons == ()
    assert (thin.lower, thin.upper) == ((0.0,) * DEPTH, (1.0,) * DEPTH)
    assert "R_TOO_FEW_ADAPTERS" in dict(thin.reasons)
    assert thin.acceptance_rate_per_pos == enough.acceptance_rate_per_pos


@pytest.mark.parametrize("strength", [-1e12, 1e12])
def test_an_adapter_absurdly_far_out_gets_the_whole_range_from_thin_data_and_not_an_error(fit_examples, strength):
    estimate = predict(fit_examples(make_examples(12, 2), min_adapters=25), columns_of(_point(strength)))
    assert (estimate.lower, estimate.upper) == ((0.0,) * DEPTH, (1.0,) * DEPTH)
    assert estimate.is_out_of_distribution


def test_new_adapters_of_new_sources_are_covered_as_promised(fit_examples):
    level = 0.8
    exported = fit_examples(make_examples(12, 2, seed=1, noise=0.4), level=level)
    fresh = make_examples(200, 1, seed=2, noise=0.4)
    lengths = [predict(exported, e.columns).acceptance_length(3) for e in fresh]
    hits = [i.lower <= e.counts_by_depth[2].acceptance_length <= i.upper for i, e in zip(lengths, fresh, strict=True)]
    assert np.mean(hits) >= 2 * level - 1


def test_more_noise_gives_wider_intervals(fit_examples):
    widths = []
    for noise in (0.1, 0.4, 1.0):
        length = predict(fit_examples(make_examples(12, 2, noise=noise)), columns_of(_point(0.0))).acceptance_length(3)
        widths.append(length.upper - length.lower)
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


@pytest.mark.parametrize("group", ["checkpoint_calib", "checkpoint_base"])
def test_a_planted_answer_in_a_column_of_another_mode_changes_nothing(fit_examples, group):
    def tables(planted: bool) -> list[TrainingExample]:
        rebuilt = []
        for example in make_examples(12, 2, noise=0.5):
            answer = example.counts_by_depth[2].acceptance_length if planted else 0.0
            groups = {
                "checkpoint_only": example.columns.values,
                "checkpoint_meta": {},
                group: {f"{group.removeprefix('checkpoint_')}_answer": answer},
            }
            columns = CheckpointOnlyColumns.from_groups(groups)
            fields = (example.adapter, example.adapter_sha256, example.source, columns)
            rebuilt.append(TrainingExample(*fields, example.counts_by_depth, example.base_counts_by_depth))
        return rebuilt

    with_answer, without = fit_examples(tables(planted=True)), fit_examples(tables(planted=False))
    assert with_answer == without
    point = columns_of(_point(0.3))
    assert predict(with_answer, point) == predict(without, point)


def test_the_same_planted_answer_is_used_by_the_mode_that_may_see_it(fit_examples):
    """Otherwise the test above would also pass if planting had no effect at all."""
    errors = {}
    for kind in (CheckpointOnlyColumns, CheckpointCalibColumns):
        examples = []
        for example in make_examples(12, 2, noise=1.0):
            answer = float(
                np.log(example.counts_by_depth[0].acceptance_rate / (1 - example.counts_by_depth[0].acceptance_rate))
            )
            groups = {
                "checkpoint_only": example.columns.values,
                "checkpoint_meta": {},
                "checkpoint_calib": {"calib_answer": answer},
            }
            fields = (example.adapter, example.adapter_sha256, example.source, kind.from_groups(groups))
            examples.append(TrainingExample(*fields, example.counts_by_depth, example.base_counts_by_depth))
        errors[kind.mode] = np.mean(fit_examples(examples)["residuals"]["rate_logit"])
    assert errors["checkpoint_calib"] < 0.2 * errors["checkpoint_only"]


def test_columns_of_another_mode_are_refused(exported):
    values = columns_of(_point(0.0)).values
    with pytest.raises(PredictorError, match="mode"):
        predict(exported, CheckpointCalibColumns({**values, "calib_answer": 1.0}))


def test_missing_and_unknown_columns_are_refused_by_name(exported):
    values = dict(columns_of(_point(0.0)).values)
    with pytest.raises(PredictorError, match="'novel'"):
        predict(exported, CheckpointOnlyColumns(values | {"novel": 1.0}))
    del values["column_2"]
    with pytest.raises(PredictorError, match="'column_2'"):
        predict(exported, CheckpointOnlyColumns(values))


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"column_0": 30.0}, "R_FEATURE_OUT_OF_RANGE"),
        ({f"column_{i}": 30.0 for i in range(NUM_COLUMNS)}, "R_OUT_OF_DISTRIBUTION"),
        ({"layers": 32.0}, "R_FEATURE_NEVER_VARIED"),
    ],
)
def test_an_adapter_unlike_all_others_is_out_of_distribution(exported, values, code):
    estimate = predict(exported, CheckpointOnlyColumns({**columns_of(_point(0.0)).values, **values}))
    assert estimate.is_out_of_distribution
    assert code in dict(estimate.reasons)


def test_the_export_survives_json_and_predicts_the_same(exported):
    again = json.loads(json.dumps(exported, allow_nan=False))
    assert again == exported
    assert predict(again, columns_of(_point(0.2))) == predict(exported, columns_of(_point(0.2)))


def test_prediction_imports_neither_scikit_learn_nor_scipy():
    code = (
        "import sys, lora_spec.predictors.prediction; "
        "assert not {'sklearn', 'scipy', 'torch', 'pandas'} & set(sys.modules), 'heavy import'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "damage",
    [
        lambda e: e.pop("columns"),
        lambda e: e.update(schema_version="0"),
        lambda e: e["centre"].pop(),
        lambda e: e["folds"].pop(),
        lambda e: e["folds"][0].update(left_out="nobody"),
        lambda e: e["model"]["positions"][0].pop("coefficients"),
        lambda e: e["model"]["positions"][0].update(coefficients=[1.0]),
        lambda e: e["residuals"].update(rate_logit=[]),
        lambda e: e.update(predictor="oracle"),
        lambda e: e["novelty"].pop("threshold"),
    ],
)
def test_a_damaged_export_is_refused(exported, damage):
    broken = copy.deepcopy(exported)
    damage(broken)
    with pytest.raises(PredictorError):
        predict(broken, columns_of(_point(0.0)))


def _places(node, path=()):
    """Yield the path of every node of JSON data, but of each list of numbers only one."""
    items = node.items() if isinstance(node, dict) else list(enumerate(node))[:1] if isinstance(node, list) else ()
    for key, child in items:
        yield (*path, key)
        yield from _places(child, (*path, key))


@pytest.mark.parametrize("value", [None, "text", -1e308, float("nan"), float("inf"), [], {}, [[1.0]], True, 10**400])
def test_whatever_is_damaged_the_answer_is_a_prediction_or_an_error_of_ours(few_exported, value):
    for path in _places(few_exported):
        broken = copy.deepcopy(few_exported)
        node = broken
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        try:
            estimate = predict(broken, columns_of(_point(0.0)))
            zero_update_estimate(broken)
            is_training_adapter(broken, "sha-0")
        except PredictorError:
            continue
        assert np.all(np.isfinite([*estimate.acceptance_rate_per_pos, *estimate.lower, *estimate.upper]))
        assert isinstance(estimate.reasons, tuple)


def test_mismatch_is_zero_for_the_base_and_one_for_nothing_accepted(exported):
    base = base_estimate(exported)
    assert base.acceptance_rate_per_pos == pytest.approx(true_rates(0.0), abs=1e-4)
    assert mismatch(base, base, num_speculative_tokens=3).estimate == pytest.approx(0.0)
    nothing = mismatch(predict(exported, columns_of(_point(40.0))), base, num_speculative_tokens=3)
    assert nothing.estimate == pytest.approx(1.0, abs=1e-6)
    assert nothing.lower <= nothing.estimate <= nothing.upper


def test_training_adapters_are_recognised_by_their_hash(exported):
    assert is_training_adapter(exported, "sha-0")
    assert not is_training_adapter(exported, "sha-new")


def test_fitting_refuses_too_few_sources_doubles_and_unequal_depths(fit_examples):
    with pytest.raises(PredictorError, match="2 sources"):
        fit_examples(make_examples(2, 5))
    examples = make_examples(5, 1)
    with pytest.raises(PredictorError, match="twice"):
        fit_examples([*examples, examples[0]])
    shallow = TrainingExample("s", "sha-s", "s", columns_of(_point(0.0)), (counts_of(true_rates(0, 1)),), ())
    with pytest.raises(PredictorError, match="depths"):
        fit_examples([*examples, shallow])
