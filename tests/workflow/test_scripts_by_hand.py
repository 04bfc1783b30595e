"""Scripts that a person runs: without a place to write to they keep to their tier, away from what rules make."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANS = {
    "phase0_composability": "phase0/matrix.json",
    "phase0_vllm_runner": "phase0/vllm_plan.json",
    "phase1_collect": "phase1/plan.json",
    "phase2_screen": "phase2_screen/plan.json",
    "calibration_probe": "calibration/plan.json",
    "phase5_serving": "phase5/plan.json",
}


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    (tmp_path / "reference").symlink_to(ROOT / "reference")
    return tmp_path


def _run(folder, script, *words):
    command = [sys.executable, "-P", str(ROOT / "scripts" / f"{script}.py"), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("tier", "prefix"), [("paper", None), ("cpu", "configs/cpu")])
@pytest.mark.parametrize("script", sorted(PLANS))
def test_a_plan_lies_in_the_folder_of_its_tier(folder, script, tier, prefix):
    names = {"phase0": "phase0_runtime.yaml", "phase5": "traffic.yaml"}
    name = names.get(script[:6], "phase1_measurement.yaml")
    done = _run(folder, script, *([] if prefix is None else ["--config", f"{prefix}/{name}"]))
    assert done.returncode == 0, done.stderr
    written = {path.relative_to(folder).as_posix() for path in (folder / "results").rglob("*") if path.is_file()}
    assert f"results/{tier}/by_hand/{PLANS[script]}" in written
    assert all(path.startswith(f"results/{tier}/by_hand/") for path in written)


def test_the_effect_gate_needs_a_tier_or_its_settings(folder):
    done = _run(folder, "phase1_effect_gate", "--records", "x.parquet", "--cost-model", "y.json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pass --config" in done.stderr
