"""What a campaign plans, from config alone, and what it refuses to run."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.errors import ConfigError, MeasurementError, ResultError
from lora_spec.measurement.campaign import (
    Folders,
    adapter_ref,
    execute_campaign,
    named_folders,
    plan_campaign,
    unpinned_inputs,
)
from lora_spec.measurement.tier_campaign import campaign_of

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
