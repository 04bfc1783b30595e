"""The campaign scripts plan by default and refuse to measure what stands at no revision."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _run(script, *flags):
    command = [sys.executable, f"scripts/{script}.py", "--config", "configs/phase1_measurement.yaml", *map(str, flags)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_screening_without_execute_is_a_plan(tmp_path):
    done = _run("phase2_screen", "--names", "sql_r16", "zero", "--output-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert (plan["kind"], plan["evidence"]) == ("phase2_screen_plan", "contract-only")
    assert [item["adapter"]["name"] for item in plan["payload"]["adapters"]] == ["sql_r16", "zero"]
    assert plan["payload"]["unpinned"] == ["target", "drafter"]
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("script", ["phase1_collect", "phase2_screen"])
def test_unpinned_models_are_not_measured(tmp_path, script):
    done = _run(script, "--execute", "--names", "sql_r16", "--output-dir", tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "target, drafter: no immutable revision" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())
