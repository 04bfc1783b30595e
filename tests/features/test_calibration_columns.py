"""Columns of a calibration probe: known values, any number of prompts, and no way into another mode."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from made_calibration import SHA256, make_prompt, make_record

from lora_spec.calibration_record import FIRST_CHOICES, SIGNALS
from lora_spec.errors import MeasurementError, ResultError
from lora_spec.features import CheckpointCalibColumns, CheckpointOnlyColumns, ColumnError, matrix_of
from lora_spec.features.calibration import calibration_columns, with_calibration, with_calibrations
from lora_spec.records import AcceptanceCounts

FEATURES = {
    "adapter": {"name": "json", "weights_sha256": SHA256},
    "columns": {"checkpoint_only": {"log_fro_total": 1.0}, "checkpoint_meta": {"meta_alpha": 8.0}},
}


def _columns(*prompts, num_prompts=None):
    record = make_record(prompts)
    return calibration_columns(record, num_prompts or len(prompts)).values


def test_columns_of_n_prompts_are_those_of_a_probe_that_had_no_others():
    whole = make_record()
    for num_prompts in (1, 2, 4, 8):
        alone = make_record(whole.prompts[:num_prompts])
        assert calibration_columns(whole, num_prompts) == calibration_columns(alone, num_prompts)


def test_every_token_counts_once_whatever_text_it_is_of():
    short = make_prompt(0, num_positions=1, js_base_nats=(0.6,))
    long = make_prompt(1, num_positions=3, js_base_nats=(0.2, 0.2, 0.2))
    assert _columns(short, long)["calib_js_base"] == pytest.approx((0.6 + 3 * 0.2) / 4)


def test_all_means_are_those_of_numpy_over_all_positions():
    prompts = [make_prompt(index, num_positions=5 + 3 * index) for index in range(4)]
    values = {name: np.concatenate([p.signals[name] for p in prompts]) for name in SIGNALS}
    columns = _columns(*prompts)
    for column, signal in (
        ("calib_js_base", "js_base_nats"),
        ("calib_overlap_drafter", "overlap_drafter"),
        ("calib_entropy_adapted", "entropy_adapted_nats"),
        ("calib_surprisal_base", "surprisal_base_nats"),
        ("calib_top1_base", "is_base_first"),
        ("calib_top1_drafter_base", "is_drafter_base_first"),
    ):
        assert columns[column] == pytest.approx(values[signal].mean()), column
    assert columns["calib_log_kl_base"] == pytest.approx(np.log(values["kl_base_nats"].mean()))
    shift = values["entropy_adapted_nats"].mean() - values["entropy_base_nats"].mean()
    assert columns["calib_entropy_shift"] == pytest.approx(shift)
    assert columns["calib_js_base_high"] == pytest.approx(
        np.quantile(values["js_base_nats"], 0.9, method="inverted_cdf")
    )


def test_the_direct_probe_stands_in_the_columns_unchanged():
    record = make_record()
    columns = calibration_columns(record, 5).values
    for depth in range(1, 5):
        assert columns[f"calib_acceptance_length_{depth}"] == record.direct_probe(depth, 5).acceptance_length


def test_odds_of_a_token_follow_from_those_before_it():
    steps = [0] * 10 + [1] * 20 + [4] * 30
    counts = tuple(AcceptanceCounts.from_accepted_per_step([min(a, k) for a in steps], k) for k in range(1, 5))
    columns = _columns(replace(make_prompt(), counts_by_depth=counts))
    assert columns["calib_log_odds_1"] == pytest.approx(math.log(50.5 / 10.5))
    assert columns["calib_log_odds_2"] == pytest.approx(math.log(30.5 / 20.5))
    assert columns["calib_log_odds_3"] == columns["calib_log_odds_4"] == pytest.approx(math.log(30.5 / 0.5))


def test_an_adapter_that_changes_nothing_lies_at_the_floor_and_agrees_everywhere():
    same = {"kl_base_nats": (0.0,) * 20, "js_base_nats": (0.0,) * 20, "is_base_first": (1.0,) * 20}
    entropy = dict.fromkeys(("entropy_adapted_nats", "entropy_base_nats"), (0.5,) * 20)
    columns = _columns(make_prompt(**same, **entropy))
    assert columns["calib_log_kl_base"] == math.log(1e-4)
    assert (columns["calib_js_base"], columns["calib_top1_base"], columns["calib_entropy_shift"]) == (0.0, 1.0, 0.0)
    assert columns["calib_top1_drafter_where_base_differs"] == 0.5  # nothing is known of such positions


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_columns_of_one_token_that_drafts_nothing_are_finite(value):
    nothing = tuple(AcceptanceCounts.zero(depth) for depth in range(1, 5))
    zeros = dict.fromkeys(SIGNALS, (0.0,)) | dict.fromkeys(FIRST_CHOICES, (value,))
    columns = _columns(replace(make_prompt(num_positions=1, finish_reason="stop", **zeros), counts_by_depth=nothing))
    assert columns["calib_acceptance_length_3"] == 1.0
    assert columns["calib_log_odds_1"] == 0.0
    assert columns["calib_ended_share"] == 1.0


def test_a_text_that_repeats_itself_is_told_from_one_that_does_not():
    repeated = replace(make_prompt(0, num_positions=8), output_token_ids=(5,) * 8)
    distinct = replace(make_prompt(1, num_positions=8), output_token_ids=tuple(range(8)))
    assert _columns(repeated)["calib_repeated_share"] == pytest.approx(4 / 5)
    assert _columns(distinct)["calib_repeated_share"] == 0.0
    # Two texts may begin alike without either repeating itself.
    assert _columns(distinct, replace(distinct, prompt_id="again"))["calib_repeated_share"] == 0.0


def test_the_other_columns_stay_as_they_are():
    told = with_calibration(FEATURES, make_record(), 4)
    assert {key: told["columns"][key] for key in FEATURES["columns"]} == FEATURES["columns"]
    assert "checkpoint_calib" not in FEATURES["columns"]
    assert set(told["columns"]["checkpoint_calib"]) == set(CheckpointCalibColumns.names)


def test_the_columns_go_into_json_and_come_back():
    columns = with_calibration(FEATURES, make_record(), 8)["columns"]["checkpoint_calib"]
    assert json.loads(json.dumps(columns, allow_nan=False)) == columns


def test_each_adapter_gets_its_own_probe_and_one_without_stays_as_it_is():
    other = {**FEATURES, "adapter": {**FEATURES["adapter"], "name": "other"}}
    joined = with_calibrations([other, FEATURES], [make_record()], 4)
    assert joined == [other, with_calibration(FEATURES, make_record(), 4)]
    with pytest.raises(ResultError, match="twice among the calibration records"):
        with_calibrations([FEATURES], [make_record(), make_record()], 4)


def test_a_probe_of_other_weights_is_refused():
    with pytest.raises(ResultError, match="calibration probe of bbbb"):
        with_calibration(FEATURES, make_record(adapter_sha256="b" * 64), 4)


def test_a_probe_that_is_not_deep_enough_is_refused():
    shallow = [replace(make_prompt(), counts_by_depth=make_prompt().counts_by_depth[:3])]
    with pytest.raises(MeasurementError, match="depths up to 3"):
        calibration_columns(make_record(shallow), 1)


def test_calibration_columns_get_into_no_other_matrix():
    columns = calibration_columns(make_record(), 8)
    with pytest.raises(ColumnError, match="checkpoint_calib"):
        matrix_of([columns], CheckpointOnlyColumns)
    assert all(name.startswith("calib_") for name in CheckpointCalibColumns.names)


def test_a_probe_of_an_adapter_without_features_is_not_left_out_in_silence():
    other = {**FEATURES, "adapter": {**FEATURES["adapter"], "name": "other"}}
    with pytest.raises(ResultError, match="'json' has a calibration probe but no features"):
        with_calibrations([other], [make_record()], 4)
