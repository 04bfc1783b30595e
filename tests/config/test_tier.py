"""Every tier that is shipped loads, and files that contradict each other do not."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from lora_spec.config import CONFIG_FILES, list_tiers, load_tier, tier_holding
from lora_spec.config.domains import DOMAIN_NAMES
from lora_spec.config.models import HubSource
from lora_spec.config.schemas import render_schemas
from lora_spec.errors import ConfigError
from lora_spec.provenance import sha256_of_file, sha256_of_json
from lora_spec.training.domains import DOMAINS

REPOSITORY = Path(__file__).resolve().parents[2]
TIERS = ("cpu", "mini", "paper")


def test_the_shipped_tiers_are_found_with_the_top_folder_under_its_own_name():
    assert list_tiers(REPOSITORY) == TIERS
    assert load_tier(REPOSITORY, "paper").folder == REPOSITORY / "configs"


@pytest.mark.parametrize("tier", TIERS)
def test_a_shipped_tier_loads_and_its_values_are_json(tier):
    loaded = load_tier(REPOSITORY, tier)
    assert set(loaded.to_dict()) == set(CONFIG_FILES)
    assert len(sha256_of_json(loaded.to_dict())) == 64


@pytest.mark.parametrize("tier", TIERS)
def test_a_shipped_file_satisfies_its_generated_schema(tier):
    folder = load_tier(REPOSITORY, tier).folder
    for name in CONFIG_FILES:
        schema = json.loads(render_schemas()[f"{name}.schema.json"])
        jsonschema.validate(yaml.safe_load((folder / f"{name}.yaml").read_text()), schema)


def test_to_dict_gives_only_the_named_files():
    assert set(load_tier(REPOSITORY, "mini").to_dict("gate", "prompts")) == {"gate", "prompts"}


def test_the_roles_of_a_prompt_set_never_share_a_prompt():
    for tier in TIERS:
        for name in ("own", "common"):
            entries = [s for s in load_tier(REPOSITORY, tier).prompts.sets if s.prompt_set == name]
            indices = [i for s in entries for i in range(s.first_prompt, s.first_prompt + s.num_prompts)]
            assert len(indices) == len(set(indices))


def test_every_tier_has_a_control_and_an_aggressive_adapter():
    for tier in TIERS:
        strata = {row.stratum for row in load_tier(REPOSITORY, tier).adapter_pool.adapters}
        assert {"control", "aggressive", "benign"} <= strata


def test_the_domains_that_a_config_may_name_are_those_that_prompts_can_be_made_for():
    assert set(DOMAIN_NAMES) == set(DOMAINS)


@pytest.mark.parametrize("tier", ["mini", "cpu"])
def test_an_adapter_has_the_licence_of_its_text(tier):
    rows = load_tier(REPOSITORY, tier).adapter_pool.adapters
    assert [row.license for row in rows] == [DOMAINS[row.domain].license for row in rows]


def test_a_shipped_adapter_of_any_tier_is_there():
    rows = [row for tier in TIERS for row in load_tier(REPOSITORY, tier).adapter_pool.adapters]
    missing = {row.path for row in rows if row.source == "shipped" and not (REPOSITORY / row.path).is_dir()}
    assert not missing


def test_shipped_models_and_layers_are_those_of_their_hashes():
    models = [load_tier(REPOSITORY, tier).models for tier in TIERS]
    pairs = [pair for tier in models for pair in (tier.primary, tier.confirm) if pair is not None]
    found = {}
    for source in (part.source for pair in pairs for part in (pair.target, pair.drafter, pair.early_drafter) if part):
        if getattr(source, "path", None) and source.sha256:
            path = REPOSITORY / source.path
            found[source.path] = sha256_of_file(path / "model.safetensors" if path.is_dir() else path) == source.sha256
    assert found
    assert all(found.values()), found


def test_a_config_file_finds_its_own_tier(root):
    for tier, folder in (("mini", "configs/mini"), ("paper", "configs")):
        assert tier_holding(root / folder / "gate.yaml").name == tier
    stray = root / "gate.yaml"
    stray.write_bytes((root / "configs/mini/gate.yaml").read_bytes())
    with pytest.raises(ConfigError, match="not in a tier's folder"):
        tier_holding(stray)


@pytest.mark.parametrize("path", ["configs/mini", "configs/mini/nothing.yaml", "configs/mini/prompts.yaml", "configs"])
def test_only_the_file_that_is_asked_for_names_its_tier(root, path):
    assert tier_holding(root / "configs/mini/phase1_measurement.yaml", "phase1_measurement").name == "mini"
    with pytest.raises(ConfigError, match=r"no such config file; give phase1_measurement\.yaml of a tier"):
        tier_holding(root / path, "phase1_measurement")


def test_two_folders_that_claim_one_tier_are_both_named(root):
    path = root / "configs/models.yaml"
    path.write_text(path.read_text().replace("tier: paper", "tier: mini"))
    with pytest.raises(
        ConfigError, match=r"configs/models\.yaml and .*configs/mini/models\.yaml both hold tier 'mini'"
    ):
        load_tier(root, "mini")
    assert load_tier(root, "cpu").name == "cpu"


@pytest.mark.parametrize("text", ["a: [", "tier: [a]\n", "- x\n"])
def test_a_fault_in_one_tier_breaks_no_other(root, text):
    (root / "configs/models.yaml").write_text(text)
    assert load_tier(root, "mini").name == "mini"
    with pytest.raises(ConfigError, match=r"configs/models\.yaml"):
        load_tier(root, "paper")


@pytest.mark.parametrize("tier", [5, None, True, [1], {"a": 1}])
def test_a_tier_that_is_no_word_is_refused_in_one_line(root, tier):
    with pytest.raises(ConfigError, match=r"no tier .*; choose one of"):
        load_tier(root, tier)


def test_the_small_tiers_need_no_model_hub():
    for tier in ("mini", "cpu"):
        pair = load_tier(REPOSITORY, tier).models.primary
        assert not isinstance(pair.target.source, HubSource)
        assert not isinstance(pair.drafter.source, HubSource)


def test_an_unknown_tier_names_the_known_ones(root):
    with pytest.raises(ConfigError, match=r"no tier 'minni'; choose one of: cpu, mini, paper"):
        load_tier(root, "minni")


@pytest.mark.parametrize("name", ["..", "mini/../mini", "schemas", ""])
def test_a_tier_name_cannot_leave_the_config_folder(root, name):
    with pytest.raises(ConfigError, match="no tier"):
        load_tier(root, name)


def test_a_repository_without_configs_says_that_there_is_no_tier(tmp_path):
    with pytest.raises(ConfigError, match="choose one of: none"):
        load_tier(tmp_path, "mini")


def test_a_missing_file_of_a_tier_is_named(root):
    (root / "configs/mini/gate.yaml").unlink()
    with pytest.raises(ConfigError, match=r"mini/gate\.yaml: no such config file"):
        load_tier(root, "mini")


def test_a_new_folder_is_a_new_tier_without_a_change_in_code(root):
    (root / "configs/mini").rename(root / "configs/lab")
    path = root / "configs/lab/models.yaml"
    path.write_text(path.read_text().replace("tier: mini", "tier: lab"))
    assert load_tier(root, "lab").name == "lab"


def _set(path: str, value: object):
    """Return a change that sets ``a.b.0.c`` in nested data."""

    def change(data: dict) -> None:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in parents:
            data = data[part]
        data[last] = value

    return change


@pytest.mark.parametrize(
    ("name", "path", "value", "message"),
    [
        ("models", "tier", "cpu", r"models\.yaml says tier: cpu, but the folder is 'mini'"),
        ("phase0_runtime", "vllm_version", "0.33.0", r"0\.33\.0 is not models\.yaml engine\.vllm_version 0\.32\.0"),
        ("gate", "candidate_depths", [0, 2, 5], r"candidate_depths \[5\] are not measured"),
        ("phase1_measurement", "step_time.depths", [0, 1, 3], r"candidate_depths \[2, 4\] are not measured"),
        ("prompts", "sets.0.max_tokens", 512, r"max_tokens 512 leaves no room"),
        ("models", "engine.max_lora_rank", 4, r"rank 8 exceeds models\.yaml engine\.max_lora_rank 4"),
        ("prompts", "sets.0.sha256", {"self_chat": None}, r"lists domains .* not, which adapter_pool\.yaml uses"),
        ("adapter_pool", "adapters.1.domain", "terse", r"lists domains \['\w+'\] that no adapter has"),
        ("adapter_pool", "adapters.1.domain", "numberd_list", r"no domain 'numberd_list'; the nearest is 'numbered_li"),
        ("adapter_pool", "adapters.1.domain", "chess", r"numbered_list: no domain 'chess'; known are arithmetic"),
        ("adapter_pool", "adapters.1.domain", "chat", r"numbered_list: no domain 'chat'"),
        ("prompts", "sets.1.sha256", {"chatt": None}, r"common evaluation: no domain 'chatt'; the nearest is 'chat'"),
        ("phase1_measurement", "level", 0.5, r"level 0\.5 is not gate\.yaml level 0\.9"),
        ("phase1_measurement", "step_time.lora_rank", 64, r"lora_rank 64 is the rank of no adapter .* are 4, 8"),
        ("phase1_measurement", "step_time.batch_sizes", [1, 64], r"batch_sizes \[64\] exceed .*max_num_seqs 16"),
        ("phase1_measurement", "step_time.num_context_tokens", 500, r"step_time takes a request to 560 tokens"),
        ("models", "engine.max_model_len", 41, r"max_tokens 40 leaves no room .*max_model_len 41"),
        ("baselines", "mixes.patterns", ["waves"], "names pattern 'waves', which traffic.yaml does not have"),
    ],
)
def test_files_that_contradict_each_other_are_refused(root, edit, name, path, value, message):
    edit(name, _set(path, value))
    with pytest.raises(ConfigError, match=message):
        load_tier(root, "mini")


def test_an_early_drafter_that_is_replayed_is_there(root):
    path = root / "configs/cpu/models.yaml"
    data = yaml.safe_load(path.read_text())
    data["primary"]["early_drafter"] = None
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigError, match=r"holds early, but models\.yaml has no primary\.early_drafter"):
        load_tier(root, "cpu")


@pytest.mark.parametrize(("file", "key"), [("models", "confirm"), ("adapter_pool", "confirm_pool")])
def test_a_second_pair_and_the_adapters_for_it_go_together(root, edit, file, key):
    edit(file, lambda data: data.update({key: None}), tier="cpu")
    with pytest.raises(ConfigError, match="a second pair and the adapters for it go together"):
        load_tier(root, "cpu")


def test_no_more_adapters_are_confirmed_than_can_be_made_again(root, edit):
    edit("adapter_pool", lambda data: data["confirm_pool"].update(num_random=60), tier="cpu")
    with pytest.raises(ConfigError, match="confirm_pool asks for 68 adapters, and 52 of this pool"):
        load_tier(root, "cpu")


def test_a_recipe_of_a_target_stands_beside_a_target_that_was_trained_only(root, edit):
    edit("models", lambda data: data["confirm"]["target"].update(training=None), tier="cpu")
    with pytest.raises(ConfigError, match="a training block belongs to a source of kind shipped_model"):
        load_tier(root, "cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_prompts": 17}, "reads 17 prompts per domain to 64 tokens; .* common fit has 16 to 64"),
        ({"max_tokens": 65}, "reads 16 prompts per domain to 65 tokens"),
        ({"num_positions": 4097}, "num_positions 4097: more than its texts can hold"),
    ],
)
def test_a_base_profile_reads_what_the_fit_prompts_hold(root, changes, message):
    path = root / "configs/cpu/models.yaml"
    data = yaml.safe_load(path.read_text())
    data["base_profile"] |= changes
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigError, match=message):
        load_tier(root, "cpu")


def test_a_base_profile_needs_fit_prompts_and_its_mode_needs_a_profile(root, edit):
    edit("gate", _set("predictor.mode", "checkpoint_base"))
    with pytest.raises(ConfigError, match=r"models\.yaml needs a base_profile block"):
        load_tier(root, "mini")
    path = root / "configs/cpu/prompts.yaml"
    data = yaml.safe_load(path.read_text())
    data["sets"] = [entry for entry in data["sets"] if entry["role"] != "fit"]
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigError, match="no common set of role fit"):
        load_tier(root, "cpu")
