"""A file that is not evidence for this matrix is refused in one line."""

import json
from pathlib import Path

import pytest

from lora_spec.errors import EvidenceError, ResultError
from lora_spec.measurement.composability.observations import merge, newest, read_observations

ID = "none+lora-off+prefix-off+chunked-off+eager+sync+greedy+free"


AXES = {
    "method": "none",
    "lora": "off",
    "prefix_caching": False,
    "chunked_prefill": False,
    "execution": "eager",
    "scheduling": "sync",
    "sampler": "greedy",
    "structured_output": False,
}
SHIPPED = sorted((Path(__file__).parents[3] / "reference").glob("*/phase0/vllm_observations.json"))


def _cell(**changes):
    return {
        "cell_id": ID,
        "axes": AXES,
        "evidence": "measured",
        "status": "works",
        "reason": "every check holds",
        "checks": [_check()],
        "timestamp": "2026-11-30T03:37:58+00:00",
        "vllm_version": "0.32.0",
        **changes,
    }


def _check(outcome="ok", **changes):
    return {"name": "texts", "outcome": outcome, "detail": "", "numbers": {}, **changes}


def _counters(*per_pos, accepted):
    numbers = {"num_drafts": 9, "num_draft_tokens": 27, "num_accepted_tokens": accepted}
    return _check(name="counters", numbers={**numbers, "num_accepted_tokens_per_pos": list(per_pos)})


def _claim(**changes):
    return {
        "test": "same_id_is_reread",
        "evidence": "measured",
        "expected": False,
        "observed": False,
        "status": "works",
        "reason": "every request got its own text",
        "timestamp": "2026-11-30T03:37:58+00:00",
        "vllm_version": "0.32.0",
        **changes,
    }


def _without(key, entry):
    return {name: value for name, value in entry.items() if name != key}


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
        (_file(cells=[_cell(status="fine")]), ResultError, "status: got 'fine'"),
        (_file(cells=[_cell(), _cell()]), ResultError, "twice"),
        (_file(tier="cpu"), ResultError, "measured for tier cpu"),
        (_file(kind="cost_model"), ResultError, "'cost_model'"),
        (_file(schema_version="2"), ResultError, "schema '2'"),
        (_file(provenance=None), ResultError, "provenance no object"),
        (_file(cache_semantics=None), ResultError, "cache_semantics is no list"),
        ({"cells": []}, ResultError, "not an observations file"),
        ([], ResultError, "not an observations file"),
    ],
)
def test_what_is_no_evidence_for_this_matrix_is_refused_in_one_line(read, data, error, words):
    with pytest.raises(error) as caught:
        read(data)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (_cell(cell_id=[ID]), "is not in the matrix"),
        (_without("reason", _cell()), "reason: missing"),
        (_without("timestamp", _cell()), "timestamp: missing"),
        (_cell(timestamp="9999-99-99"), "timestamp: got"),
        (_cell(timestamp="2026-11-30T03:37:58"), "timestamp: got"),
        (_cell(axes={**AXES, "method": "ngram"}), "axes are not those of its name"),
        (_cell(axes={**AXES, "colour": "red"}), "axes are not those of its name"),
        (_cell(axes=_without("method", AXES)), "axes are not those of its name"),
        (_cell(checks=[]), "its checks say nothing"),
        (_without("checks", _cell()), "its checks say nothing"),
        (_cell(checks=[_check(), _check("wrong")]), "its checks say ok, wrong"),
        (_cell(status="wrong"), "its checks say ok"),
        (_cell(checks=[_check("maybe")]), "outcome: got"),
        (_cell(checks="texts"), "checks: got"),
        (_cell(checks=[_counters(3, 2, 1, accepted=7)]), "counters cannot be"),
        (_cell(checks=[_counters(1, 2, 3, accepted=6)]), "counters cannot be"),
        (_cell(checks=[_counters(3.5, 2, 1, accepted=6.5)]), "counters cannot be"),
        (_cell(replaced=["execution"]), "replaced: got"),
        (_cell(replaced={"colour": "red"}), "was replaced, in force was None"),
        (_cell(in_force={"method": "ngram"}), "was replaced, in force was {'method': 'ngram'}"),
        (_cell(in_force={"method": "none"}, replaced={"method": "ngram"}), "was replaced"),
    ],
)
def test_a_cell_that_lacks_a_key_or_contradicts_itself_is_refused_in_one_line(read, cell, words):
    with pytest.raises(ResultError) as caught:
        read(_file(cells=[cell]))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([_without("test", _claim())], "test: missing"),
        ([_claim(test=["a"])], "test: got"),
        ([_claim(test="elsewhere")], "no such claim"),
        ([_claim(), _claim()], "twice"),
        ([_claim(status="wrong")], "its status is wrong, expected was False and observed False"),
        ([_claim(observed=True)], "its status is works, expected was False and observed True"),
        ([_claim(observed=None)], "nothing was observed"),
    ],
)
def test_a_claim_that_lacks_a_key_or_contradicts_itself_is_refused_in_one_line(read, entries, words):
    with pytest.raises(ResultError) as caught:
        read(_file(cache_semantics=entries))
    assert words in str(caught.value)


def test_counts_that_can_be_and_keys_that_nobody_reads_are_taken(read):
    cell = _cell(checks=[_counters(3, 2, 1, accepted=6)], in_force={"method": "none"}, replaced={}, weather="fine")
    assert read(_file(cells=[cell], cache_semantics=[_claim()])).cells[ID]["weather"] == "fine"


@pytest.mark.parametrize("path", SHIPPED, ids=[path.parts[-3] for path in SHIPPED])
def test_what_is_shipped_holds_together(path):
    data = json.loads(path.read_text())
    known = {cell["cell_id"] for cell in data["cells"]}
    seen = read_observations(path, known_ids=known, vllm_version="0.32.0", tier=data["tier"])
    assert len(seen.cells) == len(data["cells"]) > 0


def test_a_merged_observation_lists_its_predecessors_newest_first():
    old = {"status": "wrong", "timestamp": "2", "digest": "b", "history": [{"status": "crashed"}], "checks": []}
    merged = merge({"status": "works", "timestamp": "3"}, old)
    assert merged["history"] == [{"timestamp": "2", "status": "wrong", "digest": "b"}, {"status": "crashed"}]
    assert merge({"status": "works"}, None)["history"] == []


def test_of_two_observations_of_a_cell_the_later_is_kept():
    early, late = ({"timestamp": f"2026-11-30T0{hour}:00:00+00:00"} for hour in (1, 5))
    one, other = {"a": early, "b": late}, {"a": late, "b": early}
    assert newest(one, other) == newest(other, one) == {"a": late, "b": late}


def test_which_is_later_is_a_matter_of_time_and_not_of_how_it_is_written():
    early, late = {"timestamp": "2026-11-30T09:00:00+09:00"}, {"timestamp": "2026-11-30T01:00:00Z"}
    assert newest({"a": early}, {"a": late}) == newest({"a": late}, {"a": early}) == {"a": late}
