"""Predictors and nulls on the same adapters: no fold sees its source, no mode sees another's columns."""

from dataclasses import replace

import numpy as np
import pytest
from linear_law import make_tables

from lora_spec.errors import PredictorError, ResultError
from lora_spec.predictors.held_out import fit_and_hold_out
from lora_spec.predictors.held_out_comparison import compare_held_out, measured_mismatch
from lora_spec.predictors.nulls import NULLS
from lora_spec.predictors.registry import VARIANTS

GATE = {
    "level": 0.8,
    "standing_num_speculative_tokens": 3,
    "predictor": {
        "model": "elastic_net",
        "mode": "checkpoint_only",
        "elastic_net": {"penalties": [1e-3, 1e-1], "l1_ratios": [0.5]},
        "gam": {"num_curves": 2, "num_basis": 5, "penalties": [1.0]},
        "gradient_boosting": {"num_trees": [20], "min_adapters_per_leaf": 2},
        "num_folds": 3,
        "min_adapters": 5,
        "min_trials_per_position": 30,
        "max_ood_quantile": 0.95,
    },
}
CALIB = "calib_acceptance_length_3"


def _tables(**law):
    """Return tables with metadata and calibration groups; the calibration column holds the answer."""
    features, records, sources = make_tables(8, 3, noise=0.6, **law)
    for item, record in zip(features, records, strict=True):
        truth = next(p.counts for p in record.records if p.arm == "adapted" and p.counts.num_speculative_tokens == 3)
        item["columns"]["checkpoint_only"] |= {"log_fro_total": item["columns"]["checkpoint_only"]["column_1"]}
        item["columns"]["checkpoint_meta"] = {
            name: float(i) + item["columns"]["checkpoint_only"]["column_2"]
            for i, name in enumerate(NULLS["metadata_ridge"].columns)
        }
        item["columns"]["checkpoint_calib"] = {CALIB: truth.acceptance_length}
    return features, records, sources


def _compare(features, records, sources, **changes):
    return compare_held_out(features, records, gate=GATE, sources=sources, **changes)


def _lengths(contender):
    return np.array([guess.acceptance_length for guess in contender.guesses.values()])


@pytest.fixture(scope="module")
def compared():
    tables = _tables()
    return tables, _compare(*tables)


def _find(found, predictor, mode):
    (contender,) = [c for c in found.contenders if (c.predictor, c.mode) == (predictor, mode)]
    return contender


def test_every_predictor_contends_in_every_mode_that_has_columns_and_every_null_once(compared):
    (features, _, _), found = compared
    modes = ("checkpoint_only", "checkpoint_meta", "checkpoint_calib")
    expected = {(name, mode) for name in VARIANTS for mode in modes} | {(name, None) for name in NULLS}
    assert {(c.predictor, c.mode) for c in found.contenders} == expected
    assert list(found.lacking) == ["checkpoint_base"]
    assert "24 of 24 adapters have no columns of group checkpoint_base" in found.lacking["checkpoint_base"]
    for contender in found.contenders:
        assert list(contender.guesses) == [item["adapter"]["name"] for item in features]


def test_the_points_are_those_of_the_predictions_with_intervals(compared):
    (features, records, sources), found = compared
    whole = fit_and_hold_out(
        features, records, gate=GATE, sources=sources, target_model="target", draft_model="drafter"
    )
    guesses = _find(found, "elastic_net", "checkpoint_only").guesses
    for item in whole.predictions["predictions"]:
        guess = guesses[item["adapter"]]
        assert guess.acceptance_rate_per_pos == pytest.approx(item["estimate"]["acceptance_rate_per_pos"], abs=1e-12)
        lengths = item["estimate"]["acceptance_length_by_depth"]
        assert guess.acceptance_length == pytest.approx(lengths[2]["estimate"], abs=1e-12)


def test_an_answer_planted_in_a_calibration_column_changes_no_other_mode(compared):
    (features, records, sources), found = compared
    blank = [{**item, "columns": {**item["columns"], "checkpoint_calib": {CALIB: 1.0}}} for item in features]
    without = _compare(blank, records, sources)
    for contender in without.contenders:
        same = _find(found, contender.predictor, contender.mode)
        looks = contender.mode == "checkpoint_calib" or contender.predictor == "direct_probe"
        assert (contender.guesses != same.guesses) == looks


def test_the_planted_answer_is_found_in_its_own_mode(compared):
    _, found = compared
    truth = np.array([example.counts_by_depth[2].acceptance_length for example in found.examples])
    error = {
        mode: np.abs(_lengths(_find(found, "elastic_net", mode)) - truth).mean()
        for mode in ("checkpoint_only", "checkpoint_calib")
    }
    assert error["checkpoint_calib"] < 0.3 * error["checkpoint_only"]


def test_no_guess_moves_with_the_truth_of_its_own_source(compared):
    (features, records, sources), found = compared
    target = sources[records[0].adapter]
    others = next(r.records for r in records if sources[r.adapter] != target)
    changed = [replace(r, records=others) if sources[r.adapter] == target else r for r in records]
    after = _compare(features, changed, sources)
    for contender in after.contenders:
        # The base and the calibration column are no truth of the adapter: they stay the same here.
        before = _find(found, contender.predictor, contender.mode).guesses
        for name, guess in contender.guesses.items():
            if sources[name] == target:
                assert guess == before[name], (contender.predictor, contender.mode)
        assert (contender.guesses == before) == (contender.predictor == "direct_probe")  # which learns nothing


class _Spy:
    """Knows sources by a marker that all of their adapters share, and no other's."""

    def __init__(self) -> None:
        self.num_fits = self.num_guesses = 0

    def fit(self, x, y, *, sources, options):
        assert x.shape[1] == 1
        self.num_fits += 1
        return {"markers": x[:, 0].tolist(), "depth": y.shape[1]}

    def logits(self, fitted, x):
        assert np.abs(np.array(fitted["markers"]) - x[0]).min() > 1e-6
        self.num_guesses += 1
        return np.zeros(fitted["depth"])


def test_a_spy_never_meets_a_source_that_its_fold_has_seen():
    features, records, sources = make_tables(6, 4)
    names = sorted(set(sources.values()))
    for item in features:
        marker = float(names.index(sources[item["adapter"]["name"]]))
        item["columns"]["checkpoint_only"] = {"marker": marker}
    spy = _Spy()
    gate = {**GATE, "predictor": {**GATE["predictor"], "spy": {}}}
    compare_held_out(features, records, gate=gate, sources=sources, variants={"spy": spy})
    assert (spy.num_fits, spy.num_guesses) == (6, 24)


def test_the_spy_would_notice_a_leak():
    features, records, sources = make_tables(6, 4)
    names = sorted(set(sources.values()))
    for item in features:
        item["columns"]["checkpoint_only"] = {"marker": float(names.index(sources[item["adapter"]["name"]]))}
    apart = {name: f"{source}-{name}" for name, source in sources.items()}
    gate = {**GATE, "predictor": {**GATE["predictor"], "spy": {}}}
    with pytest.raises(AssertionError):
        compare_held_out(features, records, gate=gate, sources=apart, variants={"spy": _Spy()})


def test_mismatch_is_that_of_accepted_drafts_and_the_guess_does_not_look_at_its_own_prompts(compared):
    _, found = compared
    example = found.examples[0]
    adapted, base = (
        counts[2].acceptance_length - 1 for counts in (example.counts_by_depth, example.base_counts_by_depth)
    )
    assert measured_mismatch(example, 3) == pytest.approx(1 - adapted / base)
    inside = [e for e in found.examples if e.source != example.source]
    pooled = np.mean([e.base_counts_by_depth[2].acceptance_length for e in inside])
    guess = _find(found, "elastic_net", "checkpoint_only").guesses[example.adapter]
    assert guess.mismatch == pytest.approx(1 - (guess.acceptance_length - 1) / (pooled - 1))


def test_a_null_guesses_no_positions_and_one_that_says_the_same_of_all_says_so(compared):
    _, found = compared
    nulls = [contender for contender in found.contenders if contender.is_null]
    assert all(guess.acceptance_rate_per_pos is None for c in nulls for guess in c.guesses.values())
    assert [c.predictor for c in nulls if not c.orders_adapters] == ["mean"]


def test_zero_updates_are_not_guessed_and_a_null_without_its_columns_does_not_contend():
    features, records, sources = make_tables(6, 2)
    features[3]["codes"] = ["N_ZERO_UPDATE"]
    found = _compare(features, records, sources, variants={})
    assert features[3]["adapter"]["name"] not in {example.adapter for example in found.examples}
    assert {contender.predictor for contender in found.contenders} == {"mean", "own_traffic"}


def test_what_cannot_be_fitted_names_predictor_mode_and_source_and_strangers_are_refused():
    features, records, sources = make_tables(3, 2)
    with pytest.raises(
        PredictorError, match=r"elastic_net in mode checkpoint_only without source 'source-0': .*2 sources"
    ):
        _compare(features, records, sources)
    with pytest.raises(PredictorError, match="no mode"):
        _compare([{**item, "columns": {}} for item in features], records, sources)
    with pytest.raises(ResultError, match="twice"):
        _compare([*features, features[0]], records, sources)


def _with_base(features, records, margin):
    """Return features whose base columns are a constant moment and the given margin of each adapter."""
    extra = [{"base_act_log_total": float(i % 5), "base_margin_flip_share": margin(r)} for i, r in enumerate(records)]
    return [
        {**item, "columns": {**item["columns"], "checkpoint_base": columns}, "base_profile_sha256": "p"}
        for item, columns in zip(features, extra, strict=True)
    ]


def _truth(record):
    return next(p.counts for p in record.records if p.arm == "adapted").acceptance_length


def test_the_middle_step_of_the_ablation_never_sees_a_margin():
    features, records, sources = _tables()
    only_net = {"elastic_net": VARIANTS["elastic_net"]}
    told = _compare(_with_base(features, records, _truth), records, sources, variants=only_net)
    blank = _compare(_with_base(features, records, lambda _: 1.0), records, sources, variants=only_net)
    assert [c.guesses for c in told.with_moments] == [c.guesses for c in blank.with_moments]
    base = [_find(found, "elastic_net", "checkpoint_base").guesses for found in (told, blank)]
    assert base[0] != base[1]


def test_without_base_columns_there_is_no_ablation(compared):
    assert compared[1].with_moments == ()


def test_features_of_two_base_profiles_are_refused():
    features, records, sources = _tables()
    mixed = _with_base(features, records, _truth)
    mixed[3] = {**mixed[3], "base_profile_sha256": "q"}
    with pytest.raises(ResultError, match="base profile q"):
        _compare(mixed, records, sources)
