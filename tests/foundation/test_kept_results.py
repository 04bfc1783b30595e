"""Kept results are used for just what they were made from."""

import json
from functools import partial

import pytest

from lora_spec.errors import EvidenceError, ResultError
from lora_spec.kept_results import KEY, check_can_be_kept, inputs_sha256, take_kept
from lora_spec.predictors.payload import read_predictor
from lora_spec.results import read_result, write_result

READ = partial(read_result, kind="predictor")


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path in paths:
        path.write_text(path.name)
    return paths


def _write(path, digest, *, kind="predictor", evidence="measured", tier="cpu"):
    provenance = {} if digest is None else {KEY: digest}
    write_result(path, kind=kind, evidence=evidence, tier=tier, provenance=provenance, payload={"x": 1})


def _take(kept, place, digest, *, kind="predictor"):
    return take_kept({place: kept}, readers={place: partial(read_result, kind=kind)}, tier="cpu", inputs=digest)


def test_the_digest_changes_with_contents_names_and_settings_and_with_nothing_else(files, tmp_path):
    digest = inputs_sha256(files, {"level": 0.9})
    assert inputs_sha256(reversed(files), {"level": 0.9}) == digest
    assert inputs_sha256(files, {"level": 0.8}) != digest
    assert inputs_sha256(files[:1], {"level": 0.9}) != digest
    (tmp_path / "elsewhere").mkdir()
    moved = [path.rename(tmp_path / "elsewhere" / path.name) for path in files]
    assert inputs_sha256(moved, {"level": 0.9}) == digest
    moved[0].write_text("other")
    assert inputs_sha256(moved, {"level": 0.9}) != digest


def test_the_last_digits_of_what_was_computed_do_not_count(files):
    digest = inputs_sha256(files, {}, computed=[{"ms": [1 / 3, 5]}])
    assert inputs_sha256(files, {}, computed=[{"ms": [1 / 3 + 1e-12, 5]}]) == digest
    assert inputs_sha256(files, {}, computed=[{"ms": [1 / 3 + 1e-3, 5]}]) != digest
    assert inputs_sha256(files, {}, computed=[{"ms": [1 / 3, 6]}]) != digest


def test_a_kept_result_of_the_same_inputs_is_put_in_its_place_byte_by_byte(tmp_path):
    kept, place = tmp_path / "kept.json", tmp_path / "run" / "predictor.json"
    _write(kept, "abc")
    assert _take(kept, place, "abc") is None
    assert place.read_bytes() == kept.read_bytes()


@pytest.mark.parametrize(("digest", "tier"), [("other", "cpu"), (None, "cpu"), ("abc", "mini")])
def test_one_of_other_inputs_is_left_alone_and_the_reason_names_it(tmp_path, digest, tier):
    kept, place = tmp_path / "kept.json", tmp_path / "run" / "predictor.json"
    _write(kept, digest, tier=tier)
    assert "kept.json: made from other" in _take(kept, place, "abc")
    assert not place.exists()


def test_of_two_results_of_which_one_is_stale_none_is_taken(tmp_path):
    kept = {tmp_path / "run" / f"{name}.json": tmp_path / f"{name}.json" for name in ("predictor", "predictions")}
    for path, digest in zip(kept.values(), ("abc", "other"), strict=True):
        _write(path, digest, kind=path.stem)
    assert (
        take_kept(
            kept, readers={place: partial(read_result, kind=place.stem) for place in kept}, tier="cpu", inputs="abc"
        )
        is not None
    )
    assert not any(place.exists() for place in kept)


def test_nothing_kept_is_a_reason_and_no_error():
    assert take_kept({}, readers={}, tier="cpu", inputs="abc") == "nothing is kept"


def test_what_is_no_evidence_or_of_another_kind_is_never_taken(tmp_path):
    kept = tmp_path / "kept.json"
    _write(kept, "abc", evidence="synthetic-smoke")
    with pytest.raises(EvidenceError):
        _take(kept, tmp_path / "place.json", "abc")
    _write(kept, "abc", kind="predictions")
    with pytest.raises(ResultError, match="predictions"):
        _take(kept, tmp_path / "place.json", "abc")


def test_only_a_result_that_says_what_it_was_made_from_can_be_kept(tmp_path):
    path = tmp_path / "predictor.json"
    _write(path, "abc")
    assert json.loads(check_can_be_kept(path, READ, tier="cpu"))["payload"] == {"x": 1}
    with pytest.raises(ResultError, match="of tier 'cpu'"):
        check_can_be_kept(path, READ, tier="mini")
    _write(path, None)
    with pytest.raises(ResultError, match="does not say what it was made from"):
        check_can_be_kept(path, READ, tier="cpu")


def test_one_of_two_that_is_missing_is_a_reason_and_nothing_is_put_in_place(tmp_path):
    places = {kind: tmp_path / "run" / f"{kind}.json" for kind in ("predictor", "predictions")}
    kept = tmp_path / "predictor.json"
    _write(kept, "abc")
    readers = {place: partial(read_result, kind=kind) for kind, place in places.items()}
    reason = take_kept({places["predictor"]: kept}, readers=readers, tier="cpu", inputs="abc")
    assert reason == "predictions.json is not among the kept results"
    assert not places["predictor"].exists()


def test_a_kept_file_of_these_inputs_whose_payload_is_broken_is_never_taken(tmp_path):
    kept, place = tmp_path / "kept.json", tmp_path / "place.json"
    _write(kept, "abc")
    with pytest.raises(ResultError, match="no exported predictor"):
        take_kept({place: kept}, readers={place: read_predictor}, tier="cpu", inputs="abc")
    assert not place.exists()


@pytest.mark.parametrize("text", ["[]", "{}", '{"provenance": []}', '{"provenance": {"inputs_sha256": ["abc"]}}'])
def test_a_kept_file_that_says_nothing_of_its_inputs_is_a_reason_to_make_it_again(tmp_path, text):
    kept = tmp_path / "kept.json"
    kept.write_text(text)
    assert "made from other" in _take(kept, tmp_path / "place.json", "abc")
