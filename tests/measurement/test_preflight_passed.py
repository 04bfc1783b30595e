"""A preflight that passed is good for what it asked or less, by the same code; whatever else lies there is none."""

import json

import pytest

from lora_spec.measurement.preflight.passed import settled
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result

ASKED = {
    "preflight": {"min_gpu_memory_gib": 70, "min_free_disk_gib": 100, "accepted_licenses": ["MIT"]},
    "vllm_version": "0.32.0",
    "dtype": "bfloat16",
    "licenses": {"MIT": ["target", "a"]},
    "unpinned": [],
}
LESS = ASKED | {"licenses": {"MIT": ["target"]}}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "preflight.json"
    payload = {"settings": ASKED, "code": "digits", "machine": {}}
    provenance = collect_provenance(config=ASKED, seed=None)
    write_result(path, kind="preflight", evidence="measured", tier="paper", provenance=provenance, payload=payload)
    return path


def test_what_was_asked_before_is_handed_back_for_the_same_and_for_less(path):
    for asked in (ASKED, LESS):
        assert settled(path, asked, code="digits", tier="paper") == ASKED


def test_more_or_other_code_or_another_tier_or_none_is_not_settled(path, tmp_path):
    more = ASKED | {"licenses": {"MIT": ["target", "a", "b"]}}
    assert settled(path, more, code="digits", tier="paper") is None
    assert settled(path, ASKED, code="others", tier="paper") is None
    assert settled(path, ASKED, code="digits", tier="cpu") is None
    assert settled(tmp_path / "none.json", ASKED, code="digits", tier="paper") is None
    assert settled(tmp_path, ASKED, code="digits", tier="paper") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"payload": {"code": "digits"}}'])
def test_a_file_that_is_half_written_is_not_settled(path, text):
    path.write_text(text)
    assert settled(path, ASKED, code="digits", tier="paper") is None


@pytest.mark.parametrize(
    "payload",
    [
        [],
        {},
        {"settings": ASKED, "code": "digits"},
        {"settings": None, "code": "digits", "machine": {}},
        {"settings": ASKED | {"licenses": ["MIT"]}, "code": "digits", "machine": {}},
        {"settings": ASKED | {"unpinned": 0}, "code": "digits", "machine": {}},
        {"settings": {key: ASKED[key] for key in ASKED if key != "dtype"}, "code": "digits", "machine": {}},
        {"settings": ASKED | {"preflight": ASKED["preflight"] | {"more": 1}}, "code": "digits", "machine": {}},
    ],
)
def test_a_file_that_was_edited_or_is_of_another_version_is_not_settled(path, payload):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"payload": payload}))
    assert settled(path, ASKED, code="digits", tier="paper") is None
