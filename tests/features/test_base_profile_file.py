"""A profile as a file: what comes back is what was written, up to the rounding of a byte; damage is told."""

import json

import numpy as np
import pytest
from linear_base import LinearBase, Q, V
from safetensors.numpy import load, save

from lora_spec.features import BaseProfileError, read_base_profile
from lora_spec.features.base_profile import quantise_rows, write_base_profile


@pytest.fixture
def path(tmp_path):
    write_base_profile(tmp_path / "p.safetensors", LinearBase().profile())
    return tmp_path / "p.safetensors"


def rewrite(path, change):
    """Write the file again with other tensors or another header."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["lora_spec"])
    tensors = load(data)
    change(tensors, header)
    path.write_bytes(save(tensors, metadata={"lora_spec": json.dumps(header)}))


def test_a_profile_comes_back_as_it_was_written(path):
    before, after = LinearBase().profile(), read_base_profile(path)
    assert after.header == before.header
    assert np.array_equal(after.drafter_choices, before.drafter_choices)
    assert after.margins == pytest.approx(before.margins)
    for name in (Q, V):
        one, other = before.modules[name], after.modules[name]
        assert other.energies == pytest.approx(one.energies, rel=1e-6)
        assert np.allclose(other.directions, one.directions, atol=1e-3)
        for exact, found in zip(one.factors(), other.factors(), strict=True):
            largest = np.abs(exact).max(axis=-1, keepdims=True)
            assert (np.abs(found - exact) <= largest * (1 / 254 + 1e-6)).all()
            assert found.dtype == np.float32


def test_rows_of_zeros_and_of_any_size_keep_their_sizes():
    rows = np.array([[0.0, 0.0], [1e-30, -1e-30], [3e30, 1.5e30]])
    whole, scales = quantise_rows(rows)
    assert whole.dtype == np.int8
    assert whole * scales[:, None] == pytest.approx(rows, rel=1 / 100)


def test_another_file_in_its_place_is_noticed(path):
    first = read_base_profile(path)
    write_base_profile(path, LinearBase(seed=1).profile())
    assert read_base_profile(path).sha256 != first.sha256


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t, h: t.pop(f"{Q}/inputs"), "inputs"),
        (lambda t, h: t.update({f"{Q}/inputs": t[f"{Q}/inputs"][:, :, :-1].copy()}), "shape"),
        (lambda t, h: t.update({f"{V}/energies": t[f"{V}/energies"] * np.float32(np.nan)}), "NaN"),
        (lambda t, h: t.update(margins=-t["margins"]), "negative"),
        (lambda t, h: t.update(drafter_choices=t["drafter_choices"][1:].copy()), "do not agree"),
        (lambda t, h: t.update(drafter_choices=t["drafter_choices"] + np.uint8(3)), "choice"),
        (lambda t, h: h.update(kind="acceptance_records"), "acceptance_records"),
        (lambda t, h: h.update(schema_version="9"), "schema 9"),
        (lambda t, h: h.update(evidence="synthetic-smoke"), "evidence"),
        (lambda t, h: h.pop("target"), "target"),
        (lambda t, h: h["modules"][Q].update(layer=99), "no layer"),
        (lambda t, h: h["modules"][Q].update(input="nowhere"), "nowhere"),
    ],
)
def test_a_damaged_profile_is_told_with_its_path(path, change, told):
    rewrite(path, change)
    with pytest.raises(BaseProfileError, match=told) as caught:
        read_base_profile(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 64, None])
def test_what_is_no_profile_is_told(tmp_path, content):
    path = tmp_path / "p.safetensors"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(BaseProfileError, match=r"p\.safetensors"):
        read_base_profile(path)


def test_a_missing_profile_is_told(tmp_path):
    with pytest.raises(BaseProfileError, match="no base profile"):
        read_base_profile(tmp_path / "nowhere")
