"""What hostile files must not do to the reader: exhaust memory, change under its hands, reach outside the folder."""

import json
import os
import struct
import tracemalloc

import build_adapter_cases as kit
import pytest
from adapter_cases import Q0, P, plain, with_config_text, with_weights

from lora_spec.adapter import inspect_adapter, inspection
from lora_spec.adapter.files import RegularFile
from lora_spec.adapter.header import MAX_HEADER_BYTES
from lora_spec.errors import AdapterError


def peak_bytes(folder):
    tracemalloc.start()
    try:
        found = inspect_adapter(folder)
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":[' + b"0," * 2_000_000 + b"0]}",
        b'{"__metadata__":[' + b"[]," * 1_000_000 + b"0]}",
        b"{" + b'"a":{},' * 500_000 + b'"b":{}}',
        b"{" * 3_000_000,
        b'{"' + b"a" * 3_000_000,
    ],
)
def test_a_header_bomb_costs_little_memory(tmp_path, header):
    found, peak = peak_bytes(with_weights(tmp_path / "a", struct.pack("<Q", len(header)) + header))
    assert "E_HEADER" in found.codes
    assert peak < 8 * len(header) + 2**22


def test_a_header_longer_than_any_adapter_needs_is_not_read(tmp_path):
    folder = with_weights(tmp_path / "a", struct.pack("<Q", MAX_HEADER_BYTES + 1) + b"{")
    os.truncate(folder / kit.WEIGHTS, MAX_HEADER_BYTES + 100)
    found, peak = peak_bytes(folder)
    assert found.codes == ("E_HEADER",)
    assert peak < 2**20


def test_a_huge_sparse_tensor_is_read_in_pieces(tmp_path):
    rows = 12_000_000  # 192 MB of zeros that take no space on the disk
    names = {
        f"{P}{Q0}.lora_A.weight": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]},
        f"{P}{Q0}.lora_B.weight": {"dtype": "F32", "shape": [rows, 4], "data_offsets": [64, 64 + 16 * rows]},
    }
    header = json.dumps(names).encode()
    folder = with_weights(tmp_path / "a", struct.pack("<Q", len(header)) + header)
    os.truncate(folder / kit.WEIGHTS, 8 + len(header) + 64 + 16 * rows)
    found, peak = peak_bytes(folder)
    assert found.codes == ("N_ZERO_UPDATE",)
    assert peak < 32 * 2**20


def test_a_file_that_shrinks_while_read_is_truncated(tmp_path, monkeypatch):
    folder = plain(tmp_path / "a")
    build = inspection.build_modules

    def shrink_first(*args):
        os.truncate(folder / kit.WEIGHTS, (folder / kit.WEIGHTS).stat().st_size - 64)
        return build(*args)

    monkeypatch.setattr(inspection, "build_modules", shrink_first)
    assert inspect_adapter(folder).codes == ("E_TRUNCATED",)


def test_a_file_that_is_written_while_read_is_refused(tmp_path, monkeypatch):
    folder = plain(tmp_path / "a")
    build = inspection.build_modules

    def grow_first(*args):
        with (folder / kit.WEIGHTS).open("ab") as stream:
            stream.write(b"x")
        return build(*args)

    monkeypatch.setattr(inspection, "build_modules", grow_first)
    assert inspect_adapter(folder).codes == ("E_UNSAFE_FILE",)


def test_a_fifo_put_in_place_after_the_check_does_not_block(tmp_path, monkeypatch):
    path = tmp_path / "weights"
    path.write_bytes(b"x")
    before = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(type(path), "stat", lambda *_, **__: before)
    with pytest.raises(AdapterError, match="FIFO"):
        RegularFile(path)


def test_nothing_that_the_config_names_is_imported_or_opened(tmp_path, monkeypatch):
    named = {"auto_mapping": {"parent_library": "antigravity", "base_model_class": "X"}, "megatron_core": "antigravity"}
    folder = plain(tmp_path / "a", base_model_name_or_path=str(tmp_path / "secret"), **named)
    (tmp_path / "secret").mkdir()
    opened = []
    monkeypatch.setattr(
        os, "open", lambda path, *args, _open=os.open, **kw: opened.append(str(path)) or _open(path, *args, **kw)
    )
    assert inspect_adapter(folder).status == "ok"
    assert opened
    assert all(path.startswith(str(folder)) for path in opened)


@pytest.mark.parametrize(
    "pattern", ["(.*)" * 200 + "x", "(a|a)" * 150, ".*.*.*.*.*.*.*.*.*.*!", r"(\w*)(\w*)(\w*)(\w*)(\w*)(\w*)!"]
)
def test_patterns_that_would_hang_a_backtracking_engine_are_answered(tmp_path, pattern):
    modules = {f"{'model.layers.0.' + 'a' * 300}.q_proj": kit.standard()[Q0]}
    found = inspect_adapter(plain(tmp_path / "a", modules=modules, rank_pattern={pattern: 4}))
    assert found.status in ("ok", "abstain")


def test_ten_thousand_full_names_as_patterns_are_looked_up_quickly(tmp_path):
    names = [f"model.layers.{layer}.mlp.experts.{expert}.w1" for layer in range(100) for expert in range(100)]
    config = {**kit.settings(), "target_modules": None, "rank_pattern": dict.fromkeys(names, 4)}
    found = inspect_adapter(with_config_text(tmp_path / "a", json.dumps(config)))
    assert found.findings.count("N_PATTERN_UNMATCHED") == len(names)
    assert len(found.message) < 3000


def test_numbers_in_messages_do_not_grow_with_the_fault(tmp_path):
    found = inspect_adapter(plain(tmp_path / "a", r="9" * 100_000, zeta={"a" * 100_000: 1}))
    assert found.status == "error"
    assert len(found.message) < 2000
