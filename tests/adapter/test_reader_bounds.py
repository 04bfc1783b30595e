"""Names, headers, configs and tables stay bounded whatever a file asks for; honest sizes stay within the bounds."""

import json
import os
import tracemalloc

import build_adapter_cases as kit
import pytest
from adapter_cases import Q0, plain, sharded, sparse, values, with_config_text, with_header

from lora_spec.adapter import folder as folder_module
from lora_spec.adapter import header, inspect_adapter, inspection, limits, modules, patterns
from lora_spec.adapter.effort import Effort


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


def test_parameters_of_more_names_than_any_stack_has_are_refused(tmp_path):
    names = [f"mlp.experts.w{number}" for number in range(limits.MAX_PARAMETER_KINDS + 1)]
    assert "E_CONFIG_VALUE" in inspect_adapter(plain(tmp_path / "a", target_parameters=names)).codes
    assert "E_CONFIG_VALUE" not in inspect_adapter(plain(tmp_path / "b", target_parameters=names[:-1])).codes


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
