"""Work and memory stay bounded whatever a small (or sparse) file asks for; honest sizes stay within the bounds."""

import json
import os
import struct
import tracemalloc

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import Q0, P, plain, sharded, values, with_config_text, with_header

from lora_spec.adapter import folder as folder_module
from lora_spec.adapter import header, inspect_adapter, inspection, limits, modules, patterns
from lora_spec.adapter.automaton import Effort
from lora_spec.adapter.files import RegularFile

SIZES = {"F8_E4M3": 1, "F32": 4}


def sparse(folder, tensors, **config):
    """Write an adapter whose tensors ``{name: (dtype, shape)}`` are holes: they take no space on the disk."""
    folder.mkdir()
    entries, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = SIZES[dtype] * int(np.prod(shape))
        entries[P + name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(entries).encode()
    kit.write_config(folder, kit.settings(target_modules=None, **config))
    (folder / kit.WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header)
    os.truncate(folder / kit.WEIGHTS, 8 + len(header) + at)
    return folder


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


def peak_bytes(folder, **options):
    tracemalloc.start()
    try:
        found = inspect_adapter(folder, **options)
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a" + ".a" * 65, "a" * 1025, "x" + ".base_layer." * 2000 + "y"])
def test_a_name_that_no_model_has_is_refused_with_the_header(tmp_path, name):
    found = inspect_adapter(plain(tmp_path / "a", tensors={name: values(4)}))
    assert found.codes == ("E_HEADER",)
    assert len(found.message) < 600


def test_a_long_but_possible_name_is_read(tmp_path):
    module = "model." + ".".join(f"part{number}" for number in range(40)) + ".q_proj"
    folder = plain(tmp_path / "a", modules={module: kit.standard()[Q0]})
    assert [found.name for found in inspect_adapter(folder).modules] == [module]


def numbered_header(folder, count, description='{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'):
    return with_header(folder, "{" + ",".join(f'"{number:x}":{description}' for number in range(count)) + "}")


def test_more_tensors_than_any_adapter_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(header, "MAX_TENSORS", 500)
    assert "E_HEADER" not in inspect_adapter(numbered_header(tmp_path / "a", 500)).codes
    assert inspect_adapter(numbered_header(tmp_path / "b", 501)).codes == ("E_HEADER",)


def test_the_limits_hold_for_all_shards_together(tmp_path, monkeypatch):
    shards = {f"adapter_model-0000{n}-of-00002.safetensors": [f"layers.{n - 1}."] for n in (1, 2)}
    folder = sharded(tmp_path / "a", shards)
    assert inspect_adapter(folder).status == "ok"
    monkeypatch.setattr(header, "MAX_TENSORS", 7)  # each shard holds four
    assert "E_HEADER" in inspect_adapter(folder).codes
    monkeypatch.setattr(header, "MAX_TENSORS", 8)
    monkeypatch.setattr(header, "MAX_HEADER_BYTES", 800)  # a header takes about 500
    assert "E_HEADER" in inspect_adapter(folder).codes


def test_more_metadata_than_any_trainer_writes_is_refused(tmp_path):
    text = ",".join(f'"{number:x}":""' for number in range(limits.MAX_METADATA_ENTRIES + 1))
    assert inspect_adapter(with_header(tmp_path / "a", '{"__metadata__":{' + text + "}}")).codes == ("E_HEADER",)


def test_one_wide_character_does_not_make_a_header_four_times_as_large(tmp_path):
    texts = ",".join(f'"{number}":"{"x" * 2**18}"' for number in range(12))
    size = len(texts)
    folder = with_header(tmp_path / "a", '{"__metadata__":{' + texts + ',"b":"\U0001f600"}}')
    found, peak = peak_bytes(folder)
    assert found.codes == ("E_EMPTY_ADAPTER",)
    assert peak < 2 * size


@pytest.mark.parametrize("value", ["[]", '{"":0}', "1", '"ab"'])
def test_a_config_or_index_of_countless_values_is_not_built(tmp_path, value):
    count = limits.MAX_JSON_VALUES + 1
    text = "[" + ",".join([value] * count) + "]"
    folder = with_config_text(tmp_path / "a", '{"zz":' + text + "}")
    found, peak = peak_bytes(folder)
    assert found.codes == ("E_CONFIG_JSON",)
    assert peak < 3 * len(text) + 2**20
    (folder / kit.WEIGHTS).unlink()
    kit.write_config(folder, kit.settings())
    (folder / f"{kit.WEIGHTS}.index.json").write_text('{"weight_map":' + text + "}")
    found, peak = peak_bytes(folder)
    assert "E_SHARDS" in found.codes
    assert peak < 3 * len(text) + 2**20


def test_patterns_of_a_table_share_one_budget(tmp_path):
    table = {f"{number:04d}" + "a" * 980 + "[b]": 8 for number in range(400)}
    found = inspect_adapter(with_config_text(tmp_path / "a", json.dumps({**kit.settings(), "alpha_pattern": table})))
    assert found.codes[0] == "A_UNKNOWN_FIELD"
    assert "patterns" in found.message


@pytest.mark.parametrize("spent", ["states", "steps", "characters"])
def test_a_spent_budget_makes_patterns_not_evaluable(spent, monkeypatch):
    monkeypatch.setattr(patterns, "Effort", lambda: Effort(**{spent: 25}))
    table = patterns.PatternTable({"q_[p]roj": 1.0, "model.*v_[p]roj": 2.0})
    for layer in range(9):
        table.lookup([f"model.layers.{layer}.self_attn.q_proj"])
    assert table.not_evaluable
    assert all(spent in reason for reason in table.not_evaluable.values())


def test_plain_names_of_a_table_share_one_budget(monkeypatch):
    monkeypatch.setattr(patterns, "_MAX_COMPARISONS", 100)
    table = patterns.PatternTable({"a" * place + "." + "a" * (19 - place): 1.0 for place in range(20)})
    for _ in range(6):
        table.lookup(["a" * 20])
    assert table.not_evaluable


def test_twenty_thousand_names_are_looked_up_within_the_budgets():
    names = [f"model.layers.{layer}.mlp.experts.{expert}.w1" for layer in range(100) for expert in range(200)]
    table = patterns.PatternTable({**dict.fromkeys(names, 4.0), r".*\.w[23]": 5.0, r"layers\.\d+\..*q_proj": 6.0})
    assert all(table.lookup([name]) == 4.0 for name in names)
    assert not table.not_evaluable


@pytest.mark.parametrize("field", ["target_parameters", "modules_to_save"])
def test_more_declared_names_than_kinds_of_modules_are_refused(tmp_path, field):
    names = [f"m{number}.w" for number in range(limits.MAX_LISTED_NAMES + 1)]
    assert "E_CONFIG_VALUE" in inspect_adapter(plain(tmp_path / "a", **{field: names})).codes


def test_more_experts_than_any_model_has_are_not_measured(tmp_path):
    many = limits.MAX_EXPERTS + 1
    pair = {"m.experts.lora_A.weight": ("F8_E4M3", (many, 1)), "m.experts.lora_B.weight": ("F8_E4M3", (1, many))}
    found = inspect_adapter(sparse(tmp_path / "a", pair, r=1, target_parameters=["experts.w"]), header_only=True)
    assert found.codes == ("A_UNKNOWN_TENSOR",)
    assert not found.modules


def test_modules_beyond_the_limit_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(modules, "MAX_MODULES", 3)
    found = inspect_adapter(plain(tmp_path / "a"))
    assert (found.codes, len(found.modules)) == (("A_UNKNOWN_TENSOR",), 3)


def test_a_folder_of_more_names_than_are_listed_is_still_read(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "_MAX_NAMES", 2)
    folder = plain(tmp_path / "a")
    for number in range(40):
        (folder / f"{number}.txt").touch()
    found = inspect_adapter(folder)
    assert (found.status, found.codes) == ("ok", ("N_IGNORED_FILE",))


@pytest.mark.parametrize("header_only", [False, True])
@pytest.mark.parametrize("name", [kit.CONFIG, kit.WEIGHTS])
def test_a_file_that_is_replaced_or_rewritten_under_an_old_date_is_noticed(tmp_path, monkeypatch, name, header_only):
    build = inspection.build_modules
    for number, change in enumerate((_replace, _rewrite)):
        folder = plain(tmp_path / str(number))

        def change_first(*args, change=change, folder=folder):
            change(folder / name)
            return build(*args)

        monkeypatch.setattr(inspection, "build_modules", change_first)
        assert inspect_adapter(folder, header_only=header_only).codes == ("E_UNSAFE_FILE",)


def _replace(path):
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def _rewrite(path):
    before = path.stat()
    data = path.read_bytes()
    path.write_bytes(data[:-1] + data[-1:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
