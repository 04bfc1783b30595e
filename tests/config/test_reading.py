"""A wrong file, key or value is one line that names file, key path, value and what is allowed."""

import os
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


@pytest.mark.parametrize("sizes", [[8, 4], [4, 4]])
def test_sizes_of_the_calibration_probe_must_rise(root, edit, sizes):
    edit("gate", lambda data: data["comparison"].update(num_calibration_prompts=sizes))
    assert f"num_calibration_prompts {sizes} must rise" in _load_error(root)


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


@pytest.mark.parametrize(
    ("names", "message"),
    [(["nobody"], "'nobody' is no adapter of this pool"), (["sql", "sql"], "a name stands twice")],
)
def test_a_pilot_names_adapters_of_its_pool_once(root, edit, names, message):
    edit("adapter_pool", lambda data: data.update(pilot=names))
    assert message in _load_error(root)


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


@pytest.mark.parametrize(
    "path", ["reference/mini/adapters/$(touch X)sql", "a b", "a;b", "a'b", "~/x", "a/{run}", "a\nb", "a\0b", "-rf", "é"]
)
def test_a_path_holds_nothing_that_a_shell_or_a_wildcard_reads(root, edit, path):
    edit("adapter_pool", lambda data: data["adapters"][0].update(path=path))
    assert "letters, digits and ._/- alone" in _load_error(root)


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
        (
            "adapter_pool",
            lambda d: d["adapters"][0].update(path="reference/mini//adapters/sql/"),
            "has a folder of its o",
        ),
        ("adapter_pool", lambda d: d["adapters"][6].update(num_steps=5), "num_steps 5 must be 0 for a control"),
        ("adapter_pool", lambda d: d["adapters"][0].update(num_steps=0), "must be positive for an adapter that is tr"),
        ("adapter_pool", lambda d: d["adapters"][0].update(learning_rate=0.0), "must be positive for an adapter"),
        ("adapter_pool", lambda d: d["adapters"][0].update(name="x" * 121), "at most 120 characters"),
        ("adapter_pool", lambda d: d["adapters"][0].update(license="\x1b[31m"), "without control characters"),
        ("gate", lambda d: d["predictor"].update(num_folds=1), "predictor.num_folds: got 1; input should be greater"),
        ("gate", lambda d: d["predictor"].update(mode="checkpoint"), "predictor.mode: got 'checkpoint'"),
        ("gate", lambda d: d.update(num_uncertainty_draws=0), "num_uncertainty_draws: got 0"),
        ("gate", lambda d: d.update(num_uncertainty_draws=10**12), "num_uncertainty_draws: got 1000000000000"),
        ("gate", lambda d: d.update(map_batch_sizes=[1, 1]), "map_batch_sizes: got [1, 1]; values must be distinct"),
        ("gate", lambda d: d.update(map_batch_sizes=[10**6]), "map_batch_sizes[0]: got 1000000"),
        ("gate", lambda d: d["headline_load"].update(batch_size=10**9), "headline_load.batch_size: got 1000000000"),
        ("prompts", lambda d: d["sets"][0].update(temperature=0.7), "acceptance is measured greedily"),
        ("prompts", lambda d: d["sets"][0].update(num_prompts=10**8), "num_prompts: got 100000000"),
        ("phase1_measurement", lambda d: d["step_time"].update(num_trials=1), "num_trials: got 1"),
        ("phase1_measurement", lambda d: d["step_time"].update(batch_sizes=[1]), "at least 2 items"),
        ("phase1_measurement", lambda d: d["step_time"].update(batch_sizes=[1, 1, 4]), "values must be distinct"),
        (
            "models",
            lambda d: d["primary"]["drafter"].update(
                source={"kind": "hub", "repo": "a/b", "revision": None, "size_mb": 1}
            ),
            "is built by no rule",
        ),
        ("models", lambda d: d["primary"]["drafter"]["training"].update(early_step=401), "401 is no checkpoint"),
        ("models", lambda d: d["primary"]["drafter"]["source"].update(layers=[0, 0]), "holds a layer twice"),
        ("models", lambda d: d["primary"]["target"]["source"].update(version="1 --index-url x"), "source.version: got"),
        (
            "models",
            lambda d: d["primary"]["target"].update(source=d["primary"]["drafter"]["source"]),
            "does not match any of the expected tags: 'pypi_gguf', 'shipped_model', 'hub'",
        ),
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
        ("a: !!python/object/apply:os.getcwd []\n", "tag 'tag:yaml.org,2002:python/object/apply:os.getcwd' is not"),
        ("a: !!bool maybe\n", "tag 'tag:yaml.org,2002:bool' is not for configs"),
        ("a: !!timestamp abc\n", "is not for configs"),
        ('a: !!int ""\n', "is not for configs"),
        ("? !!set {a: null}\n: 1\n", "is not for configs"),
        ("a: ! x\n", "tag '!' is not for configs"),
        ("a: &a {b: 1}\nc: {<<: *a}\n", "<< is not for configs"),
        ("a: 010\n", "'010' does not read as it looks"),
        ("a: 1:30\n", "'1:30' does not read as it looks"),
        ("a: 1:30.5\n", "'1:30.5' does not read as it looks"),
        ("a: 0x1F\n", "'0x1F' does not read as it looks"),
        ("a: 1_000\n", "'1_000' does not read as it looks"),
        ("a: &a {x: *a}\n", "an alias holds itself"),
        ("&a {a: *a}\n", "an alias holds itself"),
        ('"a\\nb": 1\n"a\\nb": 1\n', r"key 'a\nb' stands twice"),
        ("k" * 1000 + ": 1\n" + "k" * 1000 + ": 1\n", "stands twice"),
        ("a: " + "[" * 3000 + "]" * 3000 + "\n", "nested too deep"),
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
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


def _bomb(num_levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, num_levels)]
    return "\n".join(lines) + "\n"


def test_aliases_may_repeat_a_block_and_never_multiply(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: &recipe {x: 1}\nb: *recipe\nc: *recipe\n")
    assert read_yaml_mapping(path) == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1}}
    path.write_text(_bomb(9))
    with pytest.raises(ConfigError, match="more than 20000 values once aliases are written out"):
        read_yaml_mapping(path)


def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path):
    path = tmp_path / "gate.yaml"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="not a plain file"):
        read_yaml_mapping(path)


@pytest.mark.parametrize(
    "key", ["\x1b[31mred", "a\nb", "\u202eabc", "k" * 100_000], ids=["escape", "line end", "direction", "long"]
)
def test_a_key_cannot_steer_a_terminal(root, edit, key):
    edit("gate", lambda data: data.update({key: 1}))
    message = _load_error(root)
    assert "unknown key" in message
    assert message.isprintable()
    assert len(message) < 600


def test_a_value_of_any_size_is_shown_shortly(root, edit):
    for value in ("x" * 10**6, [list(range(1000))] * 100, {str(i): "y" * 100 for i in range(1000)}, 10**4000):
        edit("gate", lambda data, value=value: data.update(level=value))
        assert len(_load_error(root)) < 400


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
