"""Result files: whole or not at all, and of the evidence class that is asked for."""

import json

import pytest

from lora_spec import results
from lora_spec.errors import EvidenceError, ResultError
from lora_spec.results import read_json, read_result, write_json_atomically, write_result


def _write(path, evidence="measured", kind="step_time_cells"):
    write_result(path, kind=kind, evidence=evidence, tier="mini", provenance={}, payload={"cells": []})


def test_what_is_written_is_read(tmp_path):
    _write(tmp_path / "deep" / "r.json")
    result = read_result(tmp_path / "deep" / "r.json", "step_time_cells")
    assert result.payload == {"cells": []}
    assert result.tier == "mini"


@pytest.mark.parametrize("evidence", ["contract-only", "synthetic-smoke"])
def test_evidence_of_another_class_is_refused(tmp_path, evidence):
    _write(tmp_path / "r.json", evidence)
    with pytest.raises(EvidenceError, match=evidence):
        read_result(tmp_path / "r.json", "step_time_cells")
    assert read_result(tmp_path / "r.json", "step_time_cells", evidence=(evidence,)).evidence == evidence


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": 1}', "null"])
def test_truncated_and_foreign_files_are_refused(tmp_path, text):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ResultError):
        read_result(tmp_path / "r.json", "step_time_cells")


def test_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(ResultError, match="run the workflow step"):
        read_json(tmp_path / "none.json")


def test_another_kind_and_another_schema_are_refused(tmp_path):
    _write(tmp_path / "r.json")
    with pytest.raises(ResultError, match="cost_model"):
        read_result(tmp_path / "r.json", "cost_model")
    data = json.loads((tmp_path / "r.json").read_text()) | {"schema_version": "9"}
    (tmp_path / "r.json").write_text(json.dumps(data))
    with pytest.raises(ResultError, match="schema '9'"):
        read_result(tmp_path / "r.json", "step_time_cells")


def test_failed_write_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    write_json_atomically(path, {"a": 1})

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr(results.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_json_atomically(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_nan_is_not_json(tmp_path):
    with pytest.raises(ValueError, match="Out of range float"):
        write_json_atomically(tmp_path / "r.json", float("nan"))
