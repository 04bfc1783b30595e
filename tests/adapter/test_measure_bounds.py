"""Measuring stays bounded whatever a small (or sparse) file asks for, and every NaN is still told."""

import json
import struct
import tracemalloc

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import Q0, P, plain, sparse, values

from lora_spec.adapter import inspect_adapter, limits, modules, spectrum
from lora_spec.adapter.files import RegularFile


def sparse_pair(folder, rank, in_features, out_features, dtype="F8_E4M3"):
    pair = {f"{Q0}.lora_A.weight": (dtype, (rank, in_features)), f"{Q0}.lora_B.weight": (dtype, (out_features, rank))}
    return sparse(folder, pair, r=rank)


@pytest.fixture
def read_bytes(monkeypatch):
    """Count the bytes that are read from files."""
    counted = [0]
    read = RegularFile.read_into

    def count(self, view, offset):
        counted[0] += len(view)
        read(self, view, offset)

    monkeypatch.setattr(RegularFile, "read_into", count)
    return counted


@pytest.mark.parametrize(
    ("rank", "in_features", "out_features", "dtype"),
    [
        (65536, 512, 512, "F8_E4M3"),
        (65536, 8192, 16, "F8_E4M3"),
        (8192, 8192, 8192, "F8_E4M3"),
        (2049, 4096, 4096, "F8_E4M3"),
        (1000, 33000, 33000, "F32"),
        (8, 2**28, 16, "F32"),
    ],
)
def test_a_sparse_file_cannot_ask_for_hours(tmp_path, read_bytes, rank, in_features, out_features, dtype):
    found = inspect_adapter(sparse_pair(tmp_path / "a", rank, in_features, out_features, dtype))
    assert found.codes == ("A_UNKNOWN_TENSOR",)
    assert "measured" in found.message
    assert read_bytes[0] < 10_000


@pytest.mark.parametrize(
    ("rank", "in_features", "out_features"), [(4096, 32, 32), (65536, 16, 16), (512, 4096, 14336), (2048, 2048, 2)]
)
def test_honest_and_odd_ranks_are_measured(tmp_path, rank, in_features, out_features):
    assert inspect_adapter(sparse_pair(tmp_path / "a", rank, in_features, out_features)).status == "ok"


def test_work_grows_with_the_bytes_on_the_disk_and_not_with_those_that_are_promised():
    work = limits.spectrum_work(256, 8192, 28672) * 80 * 7
    assert not limits.WorkBudget(0).take(work)
    assert limits.WorkBudget(2 * 256 * (8192 + 28672) * 80 * 7).take(work)


def test_dependent_rows_are_measured_unless_that_takes_too_much_work(tmp_path, monkeypatch):
    a, b = values(4, 20), values(20, 4)
    doubled = kit.store(np.vstack([a.values, a.values])), kit.store(np.hstack([b.values, b.values]))
    folder = plain(tmp_path / "a", modules={Q0: doubled}, r=8)
    assert inspect_adapter(folder).status == "ok"
    monkeypatch.setattr(limits, "WORK_FOR_EACH_BYTE", 0.0)
    monkeypatch.setattr(limits, "WORK_FOR_ANY_FILE", limits.spectrum_work(8, 20, 20) + 1)
    found = inspect_adapter(folder)
    assert found.codes == ("A_UNKNOWN_TENSOR",)
    assert "depend on each other" in found.message


def _cancelled(folder, size):
    a, b = values(4, size).values, values(size, 4).values
    a2 = a.copy()
    a2[0, 0] = np.nextafter(np.float32(a2[0, 0]), np.float32(9))
    return plain(folder, modules={Q0: (kit.store(np.vstack([a, a2])), kit.store(np.hstack([b, -b])))}, r=8)


def test_a_product_whose_terms_cancel_is_formed_unless_that_takes_too_much_work(tmp_path, monkeypatch):
    monkeypatch.setattr(spectrum, "_MIN_UNCANCELLED", 1e-5)
    folder = _cancelled(tmp_path / "a", 40)
    assert inspect_adapter(folder).status == "ok"
    monkeypatch.setattr(limits, "WORK_FOR_EACH_BYTE", 0.0)
    work = limits.spectrum_work(8, 40, 40) + limits.triangle_work(8, 80)
    monkeypatch.setattr(limits, "WORK_FOR_ANY_FILE", work + 1)
    assert inspect_adapter(folder).codes == ("A_UNKNOWN_TENSOR",)
    monkeypatch.setattr(limits, "WORK_FOR_ANY_FILE", work + limits.formed_work(8, 40, 40))
    assert inspect_adapter(folder).status == "ok"


def test_a_formed_product_is_never_held_whole():
    rank, size = 2, 4096
    generator = np.random.default_rng(0)
    row, column = generator.normal(size=size), generator.normal(size=(size, 1))
    a, b = np.vstack([row, row * (1 + 1e-12)]), np.hstack([column, -column])
    tracemalloc.start()
    found = spectrum.singular_values(lambda: [a], lambda: [b], rank=rank, in_features=size, out_features=size)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[0] == pytest.approx(1e-12 * np.linalg.norm(row) * np.linalg.norm(column), rel=1e-3)
    assert peak < 8 * size * size / 8


@pytest.mark.parametrize("place", [(0, 0), (3, 5)])
@pytest.mark.parametrize("factor", [0, 1])
def test_nan_is_told_of_modules_that_are_not_measured(tmp_path, monkeypatch, factor, place):
    pair = [values(4, 20).values.copy(), values(20, 4).values.copy()]
    pair[factor][place[::-1] if factor else place] = np.nan
    folder = plain(tmp_path / "a", modules={Q0: tuple(map(kit.store, pair))})
    monkeypatch.setattr(limits, "WORK_FOR_EACH_BYTE", 0.0)
    monkeypatch.setattr(limits, "WORK_FOR_ANY_FILE", 0.0)
    found = inspect_adapter(folder)
    assert (found.status, found.codes) == ("error", ("E_NONFINITE", "A_UNKNOWN_TENSOR"))


@pytest.mark.parametrize("sizes", [(12, 6), (6, 12), (6, 6)])
@pytest.mark.parametrize("factor", [0, 1])
def test_nan_is_told_where_the_rank_is_above_the_shorter_side(tmp_path, sizes, factor):
    pair = [np.zeros((8, sizes[0])), np.zeros((sizes[1], 8))]
    pair[factor][1, 2] = np.nan
    folder = plain(tmp_path / "a", modules={Q0: tuple(map(kit.store, pair))}, r=8)
    assert inspect_adapter(folder).codes == ("E_NONFINITE",)


def test_an_update_is_not_called_zero_where_not_all_of_it_was_measured(tmp_path, monkeypatch):
    zero = {f"model.layers.{layer}.self_attn.q_proj": (kit.store(np.zeros((4, 8))), values(8, 4)) for layer in (0, 1)}
    assert inspect_adapter(plain(tmp_path / "a", modules=zero)).codes == ("N_ZERO_UPDATE",)
    monkeypatch.setattr(modules, "MAX_MODULES", 1)
    assert inspect_adapter(plain(tmp_path / "b", modules=zero)).codes == ("A_UNKNOWN_TENSOR",)


def test_a_stack_of_experts_is_read_once(tmp_path, read_bytes):
    experts, size = 200, 64
    pair = {"m.experts.lora_A.weight": (experts, size), "m.experts.lora_B.weight": (size, experts)}
    folder = sparse(
        tmp_path / "a", {name: ("F32", shape) for name, shape in pair.items()}, r=1, target_parameters=["experts.w"]
    )
    assert inspect_adapter(folder).status == "ok"
    assert read_bytes[0] < 2 * 4 * 2 * experts * size


def test_holes_of_a_whole_matrix_are_not_read(tmp_path, read_bytes):
    saved = {"lm_head.weight": ("F32", (2**15, 2**15)), "model.layers.0.mlp.up_proj.lora_A.weight": ("F32", (8, 8))}
    saved["model.layers.0.mlp.up_proj.lora_B.weight"] = ("F32", (8, 8))
    found = inspect_adapter(sparse(tmp_path / "a", saved, modules_to_save=["lm_head"], r=8))
    assert "A_MODULES_TO_SAVE" in found.codes
    assert read_bytes[0] < 100_000


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16", "F64"])
@pytest.mark.parametrize("place", [0, 5_000_001, 8_388_607])
def test_a_value_between_holes_is_still_seen(tmp_path, dtype, place):
    count = 2**23
    names = {
        f"{P}{Q0}.lora_A.weight": kit.standard()[Q0][0],
        f"{P}{Q0}.lora_B.weight": kit.standard()[Q0][1],
        f"{P}lm_head.weight": kit.Tensor(dtype, (count,), b"", None),
    }
    size, entries, at = {"F64": 8, "F32": 4}.get(dtype, 2), {}, 0
    for name, tensor in names.items():
        length = len(tensor.data) or count * size
        entries[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [at, at + length]}
        at += length
    header = json.dumps(entries).encode()
    folder = tmp_path / "a"
    folder.mkdir()
    kit.write_config(folder, kit.settings(modules_to_save=["lm_head"], target_modules=None))
    data = b"".join(tensor.data for tensor in names.values())
    with (folder / kit.WEIGHTS).open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header + data)
        stream.truncate(8 + len(header) + at)
        stream.seek(8 + len(header) + len(data) + place * size)
        stream.write(b"\xff" * size)  # NaN in all four
    found = inspect_adapter(folder)
    assert "E_NONFINITE" in found.codes
    assert "1 of 8388608" in found.message
