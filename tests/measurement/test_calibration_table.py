"""The Parquet table of a calibration probe: whole, typed, and of calibration prompts alone."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_calibration import make_prompt, make_record

from lora_spec.errors import EvidenceError, ResultError
from lora_spec.measurement.calibration_table import declared_schema, read_calibration, write_calibration
from lora_spec.measurement.record_table import read_records
from lora_spec.results import write_table_result


def _write(path, record=None, **changes):
    how = {"payload": {"engine": {}}, "evidence": "measured", "tier": "cpu", "provenance": {}} | changes
    write_calibration(path, record or make_record(), **how)
    return path


def test_a_record_survives_with_every_value(tmp_path):
    record = make_record([make_prompt(0, num_positions=1), make_prompt(1, num_positions=30, finish_reason="stop")])
    assert read_calibration(_write(tmp_path / "a.parquet", record), tier="cpu") == record


def test_columns_are_the_declared_ones(tmp_path):
    table = pq.read_table(_write(tmp_path / "a.parquet"))
    assert table.schema.remove_metadata() == declared_schema()
    assert table.num_rows == 8


@pytest.mark.parametrize("role", ["evaluation", "fit"])
def test_a_probe_of_prompts_of_another_role_is_refused(tmp_path, role):
    path = _write(tmp_path / "a.parquet", make_record(role=role))
    with pytest.raises(ResultError, match=f"role '{role}'"):
        read_calibration(path)


def test_a_probe_is_never_read_as_counts_for_evaluation(tmp_path):
    with pytest.raises(ResultError, match="calibration_probe"):
        read_records(_write(tmp_path / "a.parquet"))


def test_another_tier_and_synthetic_records_are_refused(tmp_path):
    with pytest.raises(ResultError, match="'cpu'"):
        read_calibration(_write(tmp_path / "a.parquet"), tier="paper")
    with pytest.raises(EvidenceError, match="synthetic-smoke"):
        read_calibration(_write(tmp_path / "b.parquet", evidence="synthetic-smoke"))


def test_other_columns_and_damaged_values_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    how = {"kind": "calibration_probe", "evidence": "measured", "tier": "cpu", "provenance": {}}
    write_table_result(path, **how, payload={}, table=declared_schema().empty_table().append_column("guess", [[]]))
    with pytest.raises(ResultError, match="not those of this version"):
        read_calibration(path)
    payload = pq.read_schema(_write(path)).metadata[b"lora_spec"]
    table = pq.read_table(path)
    field = declared_schema().field("js_base_nats")
    values = pa.array([[0.9] * 20] * table.num_rows, type=field.type)
    damaged = table.set_column(table.column_names.index(field.name), field, values)
    pq.write_table(damaged.replace_schema_metadata({b"lora_spec": payload}), path)
    with pytest.raises(ResultError, match=r"a\.parquet.*js_base_nats"):
        read_calibration(path)


def test_a_record_of_no_prompts_is_refused(tmp_path):
    path = _write(tmp_path / "a.parquet")
    payload = pq.read_schema(path).metadata[b"lora_spec"]
    pq.write_table(pq.read_table(path).slice(0, 0).replace_schema_metadata({b"lora_spec": payload}), path)
    with pytest.raises(ResultError, match="no prompts"):
        read_calibration(path)


def test_a_probe_of_another_pair_is_refused(tmp_path):
    path = _write(tmp_path / "a.parquet", payload={"engine": {"target": "t", "drafter": "d"}})
    assert read_calibration(path, pair={"target": "t", "drafter": "d"}) == make_record()
    for pair in ({"target": "t", "drafter": "other"}, {"target": "other", "drafter": "d"}):
        with pytest.raises(ResultError, match="the config has other"):
            read_calibration(path, pair=pair)
