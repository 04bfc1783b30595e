import pytest

from lora_spec.errors import MeasurementError
from lora_spec.measurement.live_check import compare_live
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord

COUNTS = AcceptanceCounts(2, 6, 3, (2, 1, 0))


def _record(text, *, source="replay", weights="merged", counts=COUNTS, sha="s"):
    records = tuple(
        PromptRecord("p", "own", arm, None, counts, 4, text, "stop", source=source, weights=weights)
        for arm in ("base", "adapted")
    )
    return AcceptanceRecord("a", sha, records)


def _live(text, *, live=COUNTS, replay=COUNTS, sha="s"):
    both = (
        *_record(text, source="live", weights="lora", counts=live).records,
        *_record(text, weights="lora", counts=replay).records,
    )
    return AcceptanceRecord("a", sha, both)


def test_equal_texts_and_counts_are_counted_as_equal():
    for arm in compare_live(_live((1, 2, 3)), _record((1, 2, 3)), depth=3)["arms"]:
        assert (arm["num_equal_texts"], arm["num_prompts_counted_equal"], arm["num_prompts"]) == (1, 1, 1)
        assert arm["num_tokens_before_divergence"] == arm["num_tokens"] == 3
        assert arm["live"]["acceptance_length"] == arm["replay_of_merged_text"]["acceptance_length"] == 2.5


def test_divergence_is_counted_up_to_the_first_other_token():
    (arm, _) = compare_live(_live((1, 2, 9, 4)), _record((1, 2, 3, 4)), depth=3)["arms"]
    assert (arm["num_equal_texts"], arm["num_tokens_before_divergence"]) == (0, 2)


def test_live_counts_that_replay_does_not_give_are_seen():
    other = AcceptanceCounts(2, 6, 4, (2, 1, 1))
    (arm, _) = compare_live(_live((1, 2), live=other), _record((1, 2)), depth=3)["arms"]
    assert arm["num_prompts_counted_equal"] == 0


def test_other_weights_are_refused():
    with pytest.raises(MeasurementError, match="different weights"):
        compare_live(_live((1,), sha="x"), _record((1,)), depth=3)
