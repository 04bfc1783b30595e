"""A file that is not evidence for this matrix is refused in one line."""

import json

import pytest

from lora_spec.errors import EvidenceError, ResultError
from lora_spec.measurement.composability.observations import merge, newest, read_observations

ID = "none+lora-off+prefix-off+chunked-off+eager+sync+greedy+free"


def _cell(**changes):
    return {"cell_id": ID, "axes": {}, "evidence": "measured", "status": "works", "vllm_version": "0.32.0", **changes}


def _file(**changes):
    return {"schema_version": "1", "provenance": {}, "cells": [_cell()], **changes}


@pytest.fixture
def read(tmp_path):
    def read(data):
        path = tmp_path / "observations.json"
        path.write_text(json.dumps(data))
        return read_observations(path, known_ids={ID}, vllm_version="0.32.0", tier="mini")

    return read


def test_the_three_keys_of_the_format_are_enough(read):
    assert set(read(_file()).cells) == {ID}


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (_file(evidence="synthetic-smoke"), EvidenceError, "evidence of the file is 'synthetic-smoke'"),
        (_file(evidence="contract-only"), EvidenceError, "'contract-only'"),
        (_file(cells=[_cell(evidence="synthetic-smoke")]), EvidenceError, f"evidence of {ID}"),
        (_file(cells=[{"cell_id": ID, "status": "works"}]), EvidenceError, "is None"),
        (_file(cells=["works"]), EvidenceError, "an entry"),
        (_file(cache_semantics=[{"test": "x", "evidence": "contract-only"}]), EvidenceError, "evidence of x"),
        (_file(cells=[_cell(vllm_version="0.31.0")]), ResultError, "measured with vLLM 0.31.0"),
        (_file(cells=[_cell(cell_id="none+new")]), ResultError, "'none+new' is not in the matrix"),
        (_file(cells=[_cell(status="fine")]), ResultError, "status 'fine'"),
        (_file(cells=[_cell(), _cell()]), ResultError, "twice"),
        (_file(tier="cpu"), ResultError, "measured for tier cpu"),
        (_file(kind="cost_model"), ResultError, "'cost_model'"),
        (_file(schema_version="2"), ResultError, "schema '2'"),
        ({"cells": []}, ResultError, "not an observations file"),
        ([], ResultError, "not an observations file"),
    ],
)
def test_what_is_no_evidence_for_this_matrix_is_refused_in_one_line(read, data, error, words):
    with pytest.raises(error) as caught:
        read(data)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_merged_observation_lists_its_predecessors_newest_first():
    old = {"status": "wrong", "timestamp": "2", "digest": "b", "history": [{"status": "crashed"}], "checks": []}
    merged = merge({"status": "works", "timestamp": "3"}, old)
    assert merged["history"] == [{"timestamp": "2", "status": "wrong", "digest": "b"}, {"status": "crashed"}]
    assert merge({"status": "works"}, None)["history"] == []


def test_of_two_observations_of_a_cell_the_later_is_kept():
    one, other = {"a": {"timestamp": "1"}, "b": {"timestamp": "5"}}, {"a": {"timestamp": "2"}, "b": {"timestamp": "4"}}
    assert newest(one, other) == newest(other, one) == {"a": {"timestamp": "2"}, "b": {"timestamp": "5"}}
