"""A wrong file, key or value is one line that names file, key path, value and what is allowed."""

from pathlib import Path

import pytest

from lora_spec.config import load_tier, read_config
from lora_spec.config.gate import GateConfig
from lora_spec.config.reading import read_yaml_mapping
from lora_spec.errors import ConfigError


def _load_error(root: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_tier(root, "mini")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_unknown_key_names_the_nearest_valid_one(root, edit):
    edit("gate", lambda data: data.update(dead_bnd=0.1))
    message = _load_error(root)
    assert "configs/mini/gate.yaml: dead_bnd: unknown key" in message
    assert "nearest valid key is 'dead_band'" in message


def test_an_unknown_key_deep_inside_a_variant_is_named_by_its_path(root, edit):
    edit("adapter_pool", lambda data: data["adapters"][2].update(rnak=8))
    assert "adapter_pool.yaml: adapters[2].rnak: unknown key; the nearest valid key is 'rank'" in _load_error(root)


def test_the_path_of_a_wrong_source_leaves_out_the_name_of_the_variant(root, edit):
    edit("models", lambda data: data["primary"]["target"]["source"].update(wheel_sha256="abc"))
    message = _load_error(root)
    assert "models.yaml: primary.target.source.wheel_sha256: got 'abc'; string should match pattern" in message


def test_a_key_that_resembles_none_lists_the_valid_ones(root, edit):
    edit("models", lambda data: data["engine"].update(zzzz=1))
    message = _load_error(root)
    assert "engine.zzzz: unknown key; valid keys are device, dtype, enforce_eager" in message


def test_a_key_with_braces_is_shown_as_written(root, edit):
    edit("gate", lambda data: data.update({"{hint}": 1}))
    assert "gate.yaml: {hint}: unknown key" in _load_error(root)


def test_a_key_that_is_not_text_is_an_unknown_key(root, edit):
    edit("gate", lambda data: data.update({7: 1}))
    assert "gate.yaml: 7: unknown key" in _load_error(root)


def test_a_missing_key_is_named(root, edit):
    edit("gate", lambda data: data["headline_load"].pop("batch_size"))
    assert "gate.yaml: headline_load.batch_size: missing" in _load_error(root)


def test_a_value_out_of_range_is_shown_with_the_rule(root, edit):
    edit("gate", lambda data: data.update(level=1.5))
    assert "gate.yaml: level: got 1.5; input should be less than 1" in _load_error(root)


def test_a_word_outside_a_list_of_choices_is_shown_with_the_choices(root, edit):
    edit("models", lambda data: data["engine"].update(dtype="fp8"))
    message = _load_error(root)
    assert "engine.dtype: got 'fp8'; input should be 'bfloat16', 'float16' or 'float32'" in message


def test_an_unknown_variant_lists_the_variants(root, edit):
    edit("adapter_pool", lambda data: data["adapters"][0].update(source="ftp"))
    message = _load_error(root)
    assert "adapters[0]" in message
    assert "'trained', 'shipped', 'hub'" in message


@pytest.mark.parametrize("value", [True, "8", 8.5])
def test_a_count_is_not_converted_from_something_else(root, edit, value):
    edit("adapter_pool", lambda data: data["adapters"][0].update(rank=value))
    assert f"adapters[0].rank: got {value!r}; input should be a valid integer" in _load_error(root)


def test_a_list_where_a_mapping_belongs_is_refused(root, edit):
    edit("gate", lambda data: data.update(headline_load=[1, 64]))
    assert "headline_load: got [1, 64]" in _load_error(root)


def test_not_a_number_is_refused(root, edit):
    edit("gate", lambda data: data.update(max_speedup_width=float("nan")))
    assert "max_speedup_width: got nan" in _load_error(root)


def test_several_problems_come_in_one_line_and_the_rest_is_counted(root, edit):
    edit("gate", lambda data: data.update(level=2.0, dead_band=-1.0, max_green_loss=7.0, hot_traffic_share=3.0))
    message = _load_error(root)
    assert message.count(" | also: ") == 2
    assert message.endswith("| and 1 more")


def test_a_long_value_is_shortened(root, edit):
    edit("gate", lambda data: data.update(level="x" * 5000))
    assert len(_load_error(root)) < 400


@pytest.mark.parametrize("path", ["/tmp/x", "../x", "a/../../x", ""])
def test_a_path_stays_inside_the_repository(root, edit, path):
    edit("adapter_pool", lambda data: data["adapters"][0].update(path=path))
    assert "must be a path below the repository root" in _load_error(root)


@pytest.mark.parametrize("revision", ["main", "v1.0", "a" * 39, "A" * 40])
def test_a_mutable_or_short_revision_is_refused(root, edit, revision):
    hub = {"name": "x", "domain": "terse", "stratum": "benign", "license": "MIT", "source": "hub", "repo": "a/b"}
    edit("adapter_pool", lambda data: data["adapters"].append({**hub, "revision": revision}))
    assert "adapters[7].revision: got" in _load_error(root)


@pytest.mark.parametrize("revision", [None, "0123456789abcdef0123456789abcdef01234567"])
def test_an_unpinned_or_a_full_revision_is_accepted(root, edit, revision):
    def add_published_adapter(data: dict) -> None:
        hub = {"name": "x", "stratum": "benign", "license": "MIT", "source": "hub", "repo": "a/b"}
        data["adapters"].append({**hub, "domain": data["adapters"][0]["domain"], "revision": revision})

    edit("adapter_pool", add_published_adapter)
    assert load_tier(root, "mini").adapter_pool.find("x").revision == revision


SCALED = {"name": "x", "domain": "json_extract", "stratum": "control", "license": "CC0-1.0", "source": "scaled"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parent": "nobody"}, "x: parent 'nobody' is not a trained or shipped adapter of this pool"),
        ({"parent": "x"}, "x: parent 'x' is not a trained or shipped adapter"),
        ({"parent": "sql"}, "x: domain 'json_extract' is not that of its parent sql, 'sql'"),
        ({"license": "MIT"}, "x: license 'MIT' is not that of its parent json_extract, 'CC0-1.0'"),
        ({"stratum": "moderate"}, "stratum: got 'moderate'; input should be 'control'"),
        ({"scale": 0}, "scale: got 0; input should be greater than 0"),
        ({"rank": 8}, "rank: unknown key"),
        ({"source": "random"}, "scale: unknown key"),
    ],
)
def test_a_derived_row_that_does_not_fit_its_parent_is_refused(root, edit, change, message):
    row = {**SCALED, "parent": "json_extract", "scale": 0.5, **change}
    edit("adapter_pool", lambda data: data["adapters"].append(row))
    assert message in _load_error(root)


def test_a_derived_row_has_the_rank_and_the_fold_of_its_parent(root, edit):
    rows = [
        {**SCALED, "parent": "json_extract", "scale": 0.5},
        {**SCALED, "name": "y", "source": "random", "parent": "json_extract", "seed": 3},
    ]
    edit("adapter_pool", lambda data: data["adapters"].extend(rows))
    pool = load_tier(root, "mini").adapter_pool
    for name in ("x", "y"):
        assert pool.find_origin(name) is pool.find("json_extract")
        assert pool.find(name).domain == "json_extract"
    assert pool.find_origin("sql") is pool.find("sql")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("adapter_pool", lambda d: d["adapters"].append(d["adapters"][0]), "self_chat stands more than once"),
        ("prompts", lambda d: d["sets"].append({**d["sets"][0], "role": "fit"}), "inside role 'evaluation'"),
        ("prompts", lambda d: d["sets"].pop(), "list should have at least 2 items"),
        ("prompts", lambda d: d["sets"][1].update(role="fit"), "needs exactly one entry with role 'evaluation'"),
        ("gate", lambda d: d.update(candidate_depths=[1, 3]), "candidate_depths must hold 0"),
        ("gate", lambda d: d.update(candidate_depths=[0, 1]), "candidate_depths must hold 2"),
        ("phase1_measurement", lambda d: d.update(arms=["base", "base"]), "each once"),
        ("phase1_measurement", lambda d: d["effect_gate"].update(batch_size=3), "batch_size 3 is not timed"),
        ("traffic", lambda d: d["prompt_lengths"].pop(), "must add up to 1"),
        ("traffic", lambda d: d["patterns"][2].update(burst_share=0.5), "quiet rate would be negative"),
        ("baselines", lambda d: d["baselines"][4].update(is_required=False), "predictor_gated_disablement must be"),
        ("phase0_runtime", lambda d: d["axes"].update(method=["none"]), "which is not on that axis"),
        ("phase0_runtime", lambda d: d.update(chunk_tokens=63), "refuses LoRA with speculation below"),
        ("phase0_runtime", lambda d: d["adapters"].update(num_slots=3), "below the 3 names"),
        ("phase0_runtime", lambda d: d["grammar"].update(example="{}"), "example does not match pattern"),
        ("phase0_runtime", lambda d: d["grammar"].update(pattern="["), "not a regular expression"),
        ("phase0_runtime", lambda d: d["selection"].update(variants=[{"method": "mtp"}]), "a baseline names method"),
        ("models", lambda d: d["engine"].update(kv_cache_gib=None), "device cpu needs kv_cache_gib"),
        ("models", lambda d: d["primary"]["drafter"].update(retrain=True, training=None), "no training block"),
    ],
)
def test_values_that_contradict_each_other_are_refused(root, edit, name, change, message):
    edit(name, change)
    assert message in _load_error(root)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3 key 'a' stands twice"),
        ("x:\n  a: 1\n  a: 2\n", "line 3 key 'a' stands twice"),
        ("- a\n- b\n", "holds a list where a mapping"),
        ("", "holds nothing where a mapping"),
        ("just words", "holds a str where a mapping"),
        ("a: [1, 2\n", "correct the YAML there"),
        ("a: !!python/object/apply:os.getcwd []\n", "could not determine a constructor"),
        ("? [1, 2]\n: 3\n", "a key must be a word"),
        ("a: b: c\n", "correct the YAML there"),
        ("a: 2024-13-45\n", "not YAML"),
        ("a: \x01\n", "not YAML"),
    ],
)
def test_text_that_is_not_one_clean_mapping_is_refused(tmp_path, text, message):
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"gate\.yaml") as caught:
        read_yaml_mapping(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_utf8_are_refused(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_bytes(b"a: \xff\xfe\n")
    with pytest.raises(ConfigError, match="not a UTF-8 YAML text"):
        read_yaml_mapping(path)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path, GateConfig)


@pytest.mark.parametrize(("text", "value"), [("1e-3", 0.001), ("2E5", 200000.0), ("1.5e2", 150.0), ("12", 12)])
def test_numbers_read_as_they_look(tmp_path, text, value):
    path = tmp_path / "x.yaml"
    path.write_text(f"a: {text}\n")
    assert read_yaml_mapping(path) == {"a": value}


def test_text_that_only_begins_like_a_number_stays_text(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: 0.32.0\nb: 1e3x\n")
    assert read_yaml_mapping(path) == {"a": "0.32.0", "b": "1e3x"}
