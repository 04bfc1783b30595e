import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lora_spec.errors import PredictorError
from lora_spec.features import CheckpointCalibColumns
from lora_spec.features.calibration import with_calibration
from lora_spec.predictors.columns import COLUMN_SETS, CheckpointOnlyColumns, column_set_of
from lora_spec.predictors.examples import training_example
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord

sys.path.append(str(Path(__file__).parent.parent / "foundation"))
from made_calibration import make_prompt, make_record


def _prompt(arm: str, prompt: str, accepted: tuple[int, ...], *, prompt_set: str = "own") -> PromptRecord:
    counts = AcceptanceCounts(10, 10 * len(accepted), sum(accepted), accepted)
    return PromptRecord(prompt, prompt_set, arm, "json", counts, 5, (1, 2), "stop")


def _record(skip: int = 0, **changes) -> AcceptanceRecord:
    replay = (
        _prompt("base", "p0", (8,)),
        _prompt("base", "p0", (8, 6)),
        _prompt("adapted", "p0", (4,)),
        _prompt("adapted", "p1", (2,)),
        _prompt("adapted", "p0", (4, 1)),
        _prompt("adapted", "p1", (2, 0)),
        _prompt("adapted", "p9", (9, 9), prompt_set="common"),
        # Another drafter's counts, and those on the base's text, are not what a predictor learns from.
        replace(_prompt("adapted", "p0", (10, 10)), drafter="early"),
        replace(_prompt("adapted", "p0", (10, 10)), context="base"),
    )
    return AcceptanceRecord(**{"adapter": "json", "adapter_sha256": "s", "records": replay[skip:]} | changes)


FEATURES = {"adapter": {"name": "json", "weights_sha256": "s"}, "columns": {"checkpoint_only": {"norm": 1.0}}}


def _join(record: AcceptanceRecord, prompt_set: str = "own"):
    return training_example(FEATURES, record, mode="checkpoint_only", source="json", prompt_set=prompt_set)


def test_counts_are_pooled_over_the_prompts_of_one_arm_set_and_depth():
    example = _join(_record())
    assert example.counts_by_depth[0] == AcceptanceCounts(20, 20, 6, (6,))
    assert example.counts_by_depth[1] == AcceptanceCounts(20, 40, 7, (6, 1))
    assert example.base_counts_by_depth[1].acceptance_rate_per_pos == (0.8, 0.6)
    assert example.columns.values == {"norm": 1.0}


def test_features_of_other_weights_are_refused():
    with pytest.raises(PredictorError, match="weights"):
        _join(_record(adapter_sha256="other"))


def test_a_cell_without_drafts_is_refused_by_name():
    with pytest.raises(PredictorError, match=r"arm 'base', prompts 'own', K=1"):
        _join(_record(skip=2))
    with pytest.raises(PredictorError, match="'common'"):
        _join(_record(), prompt_set="common")


PROBED = {
    "adapter": FEATURES["adapter"],
    "columns": {"checkpoint_only": {"norm": 1.0}, "checkpoint_base": {"base_norm": 0.1}, "checkpoint_meta": {}},
}


def _with_probe(**signals):
    prompts = [make_prompt(index, **signals) for index in range(4)]
    return with_calibration(PROBED, make_record(prompts, adapter_sha256="s"), 4)


@pytest.mark.parametrize("mode", sorted(set(COLUMN_SETS) - {"checkpoint_calib"}))
def test_an_answer_planted_in_a_probe_changes_no_example_of_another_mode(mode):
    how = {"mode": mode, "source": "json", "prompt_set": "own"}
    planted = _with_probe(js_drafter_nats=(0.3,) * 20)
    without = training_example(PROBED, _record(), **how)
    assert training_example(planted, _record(), **how) == without
    assert not [name for name in without.columns.values if name.startswith("calib_")]


def test_the_mode_that_may_see_the_probe_sees_all_of_it():
    """Otherwise the test above would also pass if a probe had no effect at all."""
    how = {"mode": "checkpoint_calib", "source": "json", "prompt_set": "own"}
    planted = training_example(_with_probe(js_drafter_nats=(0.3,) * 20), _record(), **how)
    assert planted.columns.values["calib_js_drafter"] == pytest.approx(0.3)
    assert set(CheckpointCalibColumns.names) <= set(planted.columns.values)
    assert planted != training_example(_with_probe(js_drafter_nats=(0.4,) * 20), _record(), **how)


@pytest.mark.parametrize("mode", sorted(set(COLUMN_SETS) - {"checkpoint_calib"}))
def test_columns_of_a_probe_put_into_another_group_are_refused(mode):
    table = _with_probe()["columns"]
    smuggled = {**table, "checkpoint_only": {**table["checkpoint_only"], **table["checkpoint_calib"]}}
    with pytest.raises(PredictorError, match="belongs to another mode"):
        column_set_of(mode).from_groups(smuggled)
    with pytest.raises(PredictorError, match="belongs to another mode"):
        CheckpointOnlyColumns(table["checkpoint_calib"])
