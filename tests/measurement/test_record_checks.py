"""A record is of one adapter and of the measurement that the config describes, or it is refused."""

from dataclasses import replace

import pytest

from lora_spec.errors import ResultError
from lora_spec.measurement.record_checks import ExpectedMeasurement, check_alike, check_record
from lora_spec.measurement.record_table import read_records, write_records
from lora_spec.measurement.summary import SummarySettings, summarise_record
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord

OWN, COMMON = "a" * 64, "b" * 64
ENGINE = {"vllm": "0.32.0", "dtype": "bfloat16", "target": "big"}
EXPECTED = {
    "engine": {"vllm": "0.32.0", "dtype": "bfloat16", "target": "big", "drafter": "small"},
    "max_depth": 2,
    "weights": "lora",
    "domains": {"sql": "queries"},
    "prompts": [
        {"prompt_set": "own", "num_prompts": 2, "max_tokens": 3, "sha256": {"queries": OWN}},
        {"prompt_set": "common", "num_prompts": 1, "max_tokens": 3, "sha256": {"chat": COMMON}},
    ],
}


def _row(arm: str, prompt_set: str, prompt_id: str, depth: int, **changes) -> PromptRecord:
    counts = AcceptanceCounts(2, 2 * depth, 1, (1,) + (0,) * (depth - 1))
    served = "sql" if arm == "adapted" else None
    return replace(PromptRecord(prompt_id, prompt_set, arm, served, counts, 5, (1, 2, 3), "length"), **changes)


def _record() -> AcceptanceRecord:
    prompts = [("own", f"{OWN[:12]}-0000"), ("own", f"{OWN[:12]}-0001"), ("common", f"{COMMON[:12]}-0000")]
    rows = [_row(arm, *prompt, depth) for arm in ("base", "adapted") for prompt in prompts for depth in (1, 2)]
    return AcceptanceRecord("sql", "f" * 64, tuple(rows))


def _changed(index: int, **changes) -> AcceptanceRecord:
    rows = list(_record().records)
    rows[index] = replace(rows[index], **changes)
    return AcceptanceRecord("sql", "f" * 64, tuple(rows))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (replace(_record(), adapter="other"), "'other', adapted arm.* served 'sql' where 'other' belongs"),
        (_changed(0, adapter="sql"), "base arm.* served 'sql' where None belongs"),
        (_changed(0, finish_reason="error"), "ended with 'error'"),
        (_changed(0, counts=AcceptanceCounts(4, 9, 2, (2,))), "9 tokens drafted in 4 drafts of at most 1"),
        (_changed(0, num_prompt_tokens=-5), "-5 prompt tokens"),
        (_changed(0, e2el_ms=float("nan")), "steps in nan ms"),
        (_changed(0, e2el_ms=float("inf")), "steps in inf ms"),
        (_changed(0, num_steps=-1), "-1 steps"),
        (
            _changed(0, counts=AcceptanceCounts(3, 3, 1, (1,))),
            "3 drafts and 1 accepted tokens cannot have given 3 tokens",
        ),
        (_changed(0, counts=AcceptanceCounts(1, 1, 0, (0,))), "1 drafts and 0 accepted tokens cannot"),
        (replace(_record(), records=_record().records[1:]), r"base arm is counted at K=\[2\] where K=\[1, 2\]"),
        (replace(_record(), records=_record().records + _record().records[:1]), "counted twice at K=1"),
    ],
)
def test_a_record_of_another_adapter_or_with_a_hole_is_refused(tmp_path, record, message):
    with pytest.raises(ResultError, match=message):
        check_record(record)
    with pytest.raises(ResultError, match=message):
        summarise_record(record, SummarySettings(2, 1, 0.9, 10, 0))
    path = tmp_path / "sql.parquet"
    write_records(path, record, payload={}, evidence="measured", tier="mini", provenance={})
    with pytest.raises(ResultError, match=r"sql\.parquet"):
        read_records(path)


def test_a_record_of_another_tier_is_refused(tmp_path):
    path = tmp_path / "sql.parquet"
    write_records(path, _record(), payload={}, evidence="measured", tier="cpu", provenance={})
    assert read_records(path) == _record()
    with pytest.raises(ResultError, match="made for tier 'cpu', asked for tier 'mini'"):
        read_records(path, tier="mini")


def test_a_record_of_the_measurement_that_the_config_describes_passes():
    ExpectedMeasurement.from_dict(EXPECTED).check(_record(), ENGINE)


def _prompts(index: int, **changes) -> dict:
    entries = [dict(entry) for entry in EXPECTED["prompts"]]
    entries[index] |= changes
    return {"prompts": entries}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": {"vllm": "0.33.0"}}, "measured with vllm 0.32.0, the config has 0.33.0"),
        ({"engine": {"dtype": "float32"}}, "measured with dtype bfloat16, the config has float32"),
        ({"engine": {"target": "other"}}, "measured with target big, the config has other"),
        ({"max_depth": 4}, "replay to K 2, the config has 4"),
        ({"weights": "merged"}, "weights lora, the config has merged"),
        ({"domains": {}}, "no row in adapter_pool.yaml"),
        (_prompts(0, num_prompts=3), "own prompts: measured on 2, prompts.yaml has 3"),
        (_prompts(0, sha256={"queries": "c" * 64}), r"other prompts \(aaaaaaaaaaaa-0000\) than prompts.yaml freezes"),
        (_prompts(1, max_tokens=9), "common prompts: measured with at most 3 tokens, prompts.yaml has max_tokens 9"),
        (_prompts(1, max_tokens=2), "prompts.yaml has max_tokens 2"),
    ],
)
def test_a_record_of_another_measurement_is_refused_with_both_sides(changes, message):
    expected = ExpectedMeasurement.from_dict(EXPECTED | changes)
    with pytest.raises(ResultError, match=f"{message}.*; measure again or restore the config|{message}"):
        expected.check(_record(), ENGINE)


def test_prompts_that_are_not_frozen_are_held_to_their_number_alone():
    expected = ExpectedMeasurement.from_dict(EXPECTED | _prompts(0, sha256={"queries": None}))
    expected.check(_record(), ENGINE)


def test_records_that_were_counted_in_different_ways_are_not_compared():
    record = _record()
    other = replace(record, adapter="json")
    check_alike([])
    check_alike([record, other])
    rows = record.records
    for changed, what in (
        (tuple(replace(row, weights="merged") for row in rows), "weights"),
        (tuple(row for row in rows if row.counts.num_speculative_tokens == 1), "depths"),
        (tuple(row for row in rows if row.prompt_set == "own"), "common prompts"),
    ):
        with pytest.raises(ResultError, match=f"'sql' and 'json' were counted with different {what}"):
            check_alike([record, replace(other, records=changed)])
