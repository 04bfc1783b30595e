"""The Parquet table of prompt records: whole, typed, and of one role."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from lora_spec.errors import EvidenceError, ResultError
from lora_spec.measurement.record_table import declared_schema, read_records, write_records
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord
from lora_spec.results import write_table_result

TEXT, BASE_TEXT = (7, 8, 9, 7, 8, 9, 7), (1, 2, 1, 2, 1, 2)


def _record(arm: str, **changes) -> PromptRecord:
    counts = changes.pop("counts", AcceptanceCounts(4, 8, 3, (2, 1)))
    name = "json" if arm == "adapted" else None
    base = PromptRecord("p0", "own", arm, name, counts, 5, TEXT if arm == "adapted" else BASE_TEXT, "stop", "json")
    return replace(base, **{"weights": "merged", "num_steps": 4} | changes)


RECORD = AcceptanceRecord(
    "json",
    "f" * 64,
    (
        _record("base"),
        _record("adapted"),
        _record("adapted", drafter="early"),
        _record("adapted", context="base", output_token_ids=BASE_TEXT),
        _record("adapted", source="live", weights="lora", e2el_ms=12.5, output_token_ids=TEXT[:6]),
    ),
)


def _write(path, record=RECORD, **changes):
    how = {"payload": {"engine": {}}, "evidence": "measured", "tier": "mini", "provenance": {}} | changes
    write_records(path, record, **how)
    return path


def test_records_survive_with_every_text_in_its_place(tmp_path):
    assert read_records(_write(tmp_path / "a.parquet")) == RECORD


def test_a_text_is_stored_once_for_all_records_that_share_it(tmp_path):
    table = pq.read_table(_write(tmp_path / "a.parquet"))
    assert [text is not None for text in table["output_token_ids"].to_pylist()] == [True, True, False, False, True]


def test_columns_are_the_declared_ones(tmp_path):
    table = pq.read_table(_write(tmp_path / "a.parquet"))
    assert table.schema.remove_metadata() == declared_schema()
    assert table["num_output_tokens"].to_pylist() == [6, 7, 7, 6, 6]


@pytest.mark.parametrize("role", ["fit", "calibration"])
def test_records_of_one_role_are_never_read_as_another(tmp_path, role):
    mixed = replace(RECORD, records=(*RECORD.records, _record("adapted", role=role)))
    path = _write(tmp_path / "a.parquet", mixed)
    with pytest.raises(ResultError, match=f"role '{role}'"):
        read_records(path)
    with pytest.raises(ResultError, match="role 'evaluation'"):
        read_records(path, role=role)


def test_synthetic_records_are_refused(tmp_path):
    with pytest.raises(EvidenceError, match="synthetic-smoke"):
        read_records(_write(tmp_path / "a.parquet", evidence="synthetic-smoke"))


@pytest.mark.parametrize("keep", [0, 3, 200, -1])
def test_a_truncated_file_is_no_result(tmp_path, keep):
    path = _write(tmp_path / "a.parquet")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ResultError, match=r"a\.parquet"):
        read_records(path)


def test_a_table_without_circumstances_is_no_result(tmp_path):
    path = tmp_path / "bare.parquet"
    pq.write_table(declared_schema().empty_table(), path)
    with pytest.raises(ResultError, match="not a readable table"):
        read_records(path)


def test_other_columns_are_refused(tmp_path):
    table = declared_schema().empty_table().append_column("guess", [[]])
    write_table_result(
        tmp_path / "a.parquet", kind="acceptance_records", evidence="measured", tier="mini", provenance={}, payload={},
        table=table,
    )  # fmt: skip
    with pytest.raises(ResultError, match="not those of this version"):
        read_records(tmp_path / "a.parquet")
