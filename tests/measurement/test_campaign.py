"""What a campaign plans, from config alone, and what it refuses to run."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.engines.fake import FakeEngine, FakeReplayer
from lora_spec.errors import ConfigError, MeasurementError, ResultError
from lora_spec.measurement import campaign as campaign_module
from lora_spec.measurement import collectors
from lora_spec.measurement.campaign import (
    Folders,
    adapter_ref,
    execute_campaign,
    named_folders,
    plan_campaign,
    unpinned_inputs,
)
from lora_spec.measurement.lock import folder_lock
from lora_spec.measurement.record_store import collect_into
from lora_spec.measurement.tier_campaign import campaign_of, confirm_campaign_of
from lora_spec.training.recipe import recipe_of_row

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def mini():
    return campaign_of(load_tier(ROOT, "mini"))


def test_plan_lists_every_adapter_with_its_own_and_the_common_prompts(mini):
    plan = plan_campaign(mini)
    assert [item["adapter"]["name"] for item in plan["adapters"]] == [row["name"] for row in mini.rows]
    for item in plan["adapters"]:
        own, common = item["prompt_sets"]
        assert (own["prompt_set"], common["prompt_set"]) == ("own", "common")
        assert own["domain"] == item["adapter"]["domain"]


def test_own_traffic_is_chosen_by_set_where_its_domain_is_common_too(mini):
    common = [item for item in mini.prompts if item.prompt_set == "common"]
    chat_and_sql = [*common, dataclasses.replace(common[0], domain="sql", sha256="1" * 64)]
    both = dataclasses.replace(mini, prompts=(*(p for p in mini.prompts if p.prompt_set == "own"), *chat_and_sql))
    row = next(row for row in mini.rows if row["domain"] == "sql")
    sets = [(prompts.prompt_set, prompts.domain) for prompts in both.prompts_for(row)]
    assert sets == [("own", "sql"), ("common", "chat"), ("common", "sql")]
    own, *_, last = both.prompts_for(row)
    assert own.sha256 != last.sha256


@pytest.mark.parametrize("prompt_set", ["own", "common"])
def test_an_adapter_without_prompts_of_a_set_is_named(mini, prompt_set):
    without = dataclasses.replace(mini, prompts=tuple(p for p in mini.prompts if p.prompt_set != prompt_set))
    with pytest.raises(MeasurementError, match=f"adapter 'self_chat': no evaluation prompts in set '{prompt_set}'"):
        plan_campaign(without)


def test_common_lists_of_several_domains_are_each_measured_and_the_base_once(mini, monkeypatch):
    acceptance = {None: 0.8, "sql": 0.3, "json_extract": 0.4}
    engine, base_runs = FakeEngine(acceptance, num_speculative_tokens=4), []
    generate = engine.generate
    engine.generate = lambda requests: (base_runs.append(requests[0].adapter is None), generate(requests))[1]
    monkeypatch.setattr(collectors, "open_engine", lambda *_, **__: engine)
    monkeypatch.setattr(collectors, "open_replayer", lambda *_, **__: FakeReplayer(acceptance))
    common = next(item for item in mini.prompts if item.prompt_set == "common")
    others = [
        dataclasses.replace(
            common, domain=f"d{i}", prompts=tuple(f"{p} {i}" for p in common.prompts), sha256=f"{i}" * 64
        )
        for i in range(3)
    ]
    rows = tuple(row for row in mini.rows if row["name"] in acceptance)
    folders = Folders(Path("t"), Path("d"), {row["name"]: ROOT / row["path"] for row in rows})
    several = dataclasses.replace(mini, rows=rows, prompts=(*mini.prompts, *others))
    for record, _ in execute_campaign(several, folders):
        found = [r for r in record.chosen("live") if (r.prompt_set, r.arm) == ("common", "base")]
        assert {r.domain for r in found} == {"chat", "d0", "d1", "d2"}
        assert len({r.prompt_id for r in found}) == len(found) == 4 * len(common.prompts)
    # Warm-up, window and overrun: once per own list and once for each common list, for both adapters together.
    assert sum(base_runs) == 3 * (2 + 4)


def test_a_record_is_asked_for_by_everything_it_depends_on(mini, monkeypatch):
    row = next(row for row in mini.rows if row["name"] == "sql")
    one = dataclasses.replace(mini, rows=(row,))
    folders = Folders(Path("t"), Path("d"), {"sql": ROOT / row["path"]})

    def digest(campaign=one):
        asked = []
        assert list(execute_campaign(campaign, folders, is_done=lambda *question: asked.append(question) or True)) == []
        ((name, inputs_sha256),) = asked
        assert name == "sql"
        return inputs_sha256

    first = digest()
    assert digest() == first
    assert digest(dataclasses.replace(one, phase1={**one.phase1, "max_depth": 3})) != first
    assert digest(dataclasses.replace(one, engine={**one.engine, "dtype": "float32"})) != first
    monkeypatch.setattr(campaign_module, "code_digest", lambda path: "of other code")
    assert digest() != first


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        ("adapter/adapter_config.json", '"lora_alpha": ', '"lora_alpha": 1'),
        ("target/model.safetensors", "old", "new"),
        ("target/model-00002-of-00002.safetensors", "old", "new"),
        ("target/config.json", "old", "new"),
        ("drafter/config.json", "old", "new"),
        ("target/chat_template.jinja", "old", "new"),
        ("target/tokenizer.json", "old", "new"),
    ],
)
def test_a_record_is_asked_for_by_every_file_that_the_engine_reads(mini, tmp_path, place, old, new):
    row = next(row for row in mini.rows if row["name"] == "sql")
    one = dataclasses.replace(mini, rows=(row,))
    shutil.copytree(ROOT / row["path"], tmp_path / "adapter")
    path = tmp_path / place
    if not path.exists():
        path.parent.mkdir()
        path.write_text(old)
    folders = Folders(tmp_path / "target", tmp_path / "drafter", {"sql": tmp_path / "adapter"})
    asked = []
    for _ in range(2):
        assert not list(execute_campaign(one, folders, is_done=lambda _, sha256: asked.append(sha256) or True))
        path.write_text(path.read_text().replace(old, new))
    assert asked[0] != asked[1]


def test_two_runs_do_not_measure_into_one_folder(mini, tmp_path):
    row = next(row for row in mini.rows if row["name"] == "sql")
    folders = Folders(tmp_path, tmp_path, {"sql": ROOT / row["path"]})
    with folder_lock(tmp_path / "state"), pytest.raises(MeasurementError, match="another run"):
        collect_into(tmp_path / "out", dataclasses.replace(mini, rows=(row,)), folders, state_dir=tmp_path / "state")
    assert not (tmp_path / "out").exists()


def test_named_adapters_only(mini):
    tier = load_tier(ROOT, "mini")
    name = mini.rows[0]["name"]
    assert [row["name"] for row in campaign_of(tier, names=[name]).rows] == [name]
    with pytest.raises(ConfigError, match="no adapter 'nobody'"):
        campaign_of(tier, names=["nobody"])


def test_unpinned_revision_plans_and_does_not_run(mini):
    hub = {"kind": "hub", "repo": "owner/model", "revision": None}
    loose = dataclasses.replace(mini, pair={**mini.pair, "target": {**mini.pair["target"], "source": hub}})
    assert unpinned_inputs(mini) == []
    assert plan_campaign(loose)["unpinned"] == ["target"]
    with pytest.raises(MeasurementError, match="40 hex digits"):
        next(execute_campaign(loose, Folders(Path("t"), Path("d"), {})))


def test_missing_adapter_folder_is_refused_before_any_engine_starts(mini):
    with pytest.raises(MeasurementError, match="no folder given"):
        next(execute_campaign(mini, Folders(Path("t"), Path("d"), {})))


@pytest.mark.parametrize("folder", ["configs", "configs/cpu", "configs/mini"])
def test_script_plans_without_an_engine(tmp_path, folder):
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "scripts" / "phase1_collect.py"),
            "--config",
            str(ROOT / folder / "phase1_measurement.yaml"),
            "--output-dir",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"evidence": "contract-only"' in (tmp_path / "plan.json").read_text()


def test_weights_other_than_the_rows_are_refused_with_both_hashes(mini):
    folders = {row["name"]: ROOT / row["path"] for row in mini.rows}
    row = next(row for row in mini.rows if row["name"] == "sql")
    assert adapter_ref("sql", folders, sha256=row["sha256"]).name == "sql"
    with pytest.raises(ConfigError, match=f"row 'sql': sha256 is {'0' * 64}, .* have {row['sha256']}; restore"):
        adapter_ref("sql", folders, sha256="0" * 64)


def test_an_adapter_given_twice_is_refused():
    tier = load_tier(ROOT, "mini")
    with pytest.raises(ResultError, match="'sql' stands twice among the names"):
        campaign_of(tier, names=["sql", "sql"])
    with pytest.raises(ResultError, match="'sql' stands twice among the folders"):
        named_folders([("sql", Path("a")), ("sql", Path("b"))])


def test_the_second_pair_is_measured_on_the_same_prompts_with_adapters_made_again():
    tier = load_tier(ROOT, "cpu")
    names = ["sql_r8_qv_rs", "self_chat_r2_mlp"]
    primary, confirm = campaign_of(tier, names=names), confirm_campaign_of(tier, names=names)
    plans = [plan_campaign(campaign) for campaign in (primary, confirm)]
    assert [item["prompt_sets"] for item in plans[0]["adapters"]] == [
        item["prompt_sets"] for item in plans[1]["adapters"]
    ]
    assert confirm.pair["target"]["name"] == tier.models.confirm.target.name != primary.pair["target"]["name"]
    assert {row["source"] for row in confirm.rows} == {"trained"}
    assert not any({"path", "sha256"} & set(row) for row in confirm.rows)
    assert [row["seed"] for row in confirm.rows] == [row["seed"] for row in primary.rows]
    assert confirm.phase1["counting"]["drafters"] == ["final", "ngram"]


def test_rows_of_the_second_pair_can_be_trained_whatever_is_shipped_for_the_first():
    tier = load_tier(ROOT, "cpu")
    for name in tier.adapter_pool.remade:
        row = tier.adapter_pool.find(name)
        assert recipe_of_row(row.made_again().to_dict()).to_dict().items() <= row.to_dict().items()


def test_a_control_is_not_confirmed():
    with pytest.raises(ConfigError, match="'zero' has no recipe for another target, or is a control"):
        confirm_campaign_of(load_tier(ROOT, "cpu"), names=["zero"])


def test_a_tier_without_a_second_pair_cannot_be_confirmed():
    with pytest.raises(ConfigError, match="confirm is null"):
        confirm_campaign_of(load_tier(ROOT, "mini"), names=["sql"])


def test_the_papers_second_pair_plans_and_does_not_run():
    campaign = confirm_campaign_of(load_tier(ROOT, "paper"), names=["sql_r16"])
    assert plan_campaign(campaign)["unpinned"] == ["target", "drafter"]
    with pytest.raises(MeasurementError, match="40 hex digits"):
        next(execute_campaign(campaign, Folders(Path("t"), Path("d"), {})))
