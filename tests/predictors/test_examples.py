from dataclasses import replace

import pytest

from lora_spec.errors import PredictorError
from lora_spec.predictors.examples import training_example
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord


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
