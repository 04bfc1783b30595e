"""Frozen inputs are checked before anything runs, and the plan needs no engine."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.errors import ConfigError
from lora_spec.measurement.composability.plan import plan_phase0
from lora_spec.results import read_json, read_result

ROOT = Path(__file__).parents[3]
RUNNER, MATRIX = ROOT / "scripts" / "phase0_vllm_runner.py", ROOT / "scripts" / "phase0_composability.py"


@pytest.fixture
def root(tmp_path):
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    for tier in ("mini", "cpu"):
        shutil.copytree(ROOT / "reference" / tier / "adapters", tmp_path / "reference" / tier / "adapters")
    return tmp_path


def _edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def _script(script, *flags, cwd=ROOT):
    done = subprocess.run([sys.executable, str(script), *map(str, flags)], cwd=cwd, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize("tier", ["mini", "cpu", "paper"])
def test_every_tier_can_be_planned(root, tier):
    plan = plan_phase0(load_tier(root, tier)).to_dict()
    assert plan["cells"]
    assert plan["prompts"]["num_prompts"] > 0


def test_an_adapter_file_that_differs_from_its_hash_is_refused(root):
    path = root / "reference" / "mini" / "adapters" / "upper_case" / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ConfigError, match=r"adapter upper_case: .* pinned is 3024"):
        plan_phase0(load_tier(root, "mini"))


def test_a_missing_adapter_file_is_refused(root):
    (root / "reference" / "mini" / "adapters" / "upper_case" / "adapter_model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"holds no adapter_model\.safetensors"):
        plan_phase0(load_tier(root, "mini"))


def test_prompts_that_differ_from_their_hash_are_refused(root):
    path = root / "configs" / "mini" / "prompts.yaml"
    _edit(path, "82b3d4c7dd02", "000000000000")
    with pytest.raises(ConfigError, match="the prompts hash to"):
        plan_phase0(load_tier(root, "mini"))


def test_an_adapter_that_the_pool_does_not_have_is_refused(root):
    _edit(root / "configs" / "mini" / "phase0_runtime.yaml", "names: [upper_case,", "names: [lower_case,")
    with pytest.raises(ConfigError, match="lower_case"):
        plan_phase0(load_tier(root, "mini"))


def test_more_prompts_than_there_are_is_refused(root):
    _edit(root / "configs" / "mini" / "phase0_runtime.yaml", "num_prompts: 2", "num_prompts: 99")
    with pytest.raises(ConfigError, match="exceeds the 8 common"):
        plan_phase0(load_tier(root, "mini"))


def test_the_runner_plans_by_default_and_says_that_nothing_ran(tmp_path):
    output = tmp_path / "phase0" / "vllm_observations.json"
    done = _script(RUNNER, "--config", "configs/phase0_runtime.yaml", "--output", output)
    assert done.returncode == 0, done.stderr
    plan = read_result(tmp_path / "phase0" / "vllm_plan.json", "phase0_plan", evidence=("contract-only",))
    assert plan.evidence == "contract-only"
    assert plan.payload["unpinned"] == ["target", "drafter"]
    assert not output.exists()


def test_planning_imports_neither_engine_nor_torch(tmp_path):
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['x', '--config', 'configs/mini/phase0_runtime.yaml', '--output', {str(tmp_path / 'o.json')!r}]\n"
        f"runpy.run_path({str(RUNNER)!r}, run_name='__main__')\n"
        "assert not {'vllm', 'torch', 'transformers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_executing_without_models_is_wrong_use_told_in_one_line(tmp_path):
    config = ("--config", "configs/mini/phase0_runtime.yaml", "--output", tmp_path / "o.json")
    done = _script(RUNNER, *config, "--execute")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pass --target and --drafter" in done.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--target", "no/such", "--drafter", "src"), "'no/such': no such folder"),
        (("--target", "src", "--drafter", "src", "--adapters", "a=src", "a=docs"), "'a' stands twice"),
    ],
)
def test_a_folder_that_is_not_there_never_becomes_the_name_of_a_hub_and_none_is_dropped(tmp_path, flags, words):
    config = ("--config", "configs/mini/phase0_runtime.yaml", "--output", tmp_path / "o.json")
    done = _script(RUNNER, *config, "--execute", *flags)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_the_matrix_without_observations_needs_no_other_flag_and_claims_nothing(tmp_path):
    done = _script(MATRIX, "--output-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fallback_policy.json", "matrix.csv", "matrix.json"]
    matrix = read_json(tmp_path / "matrix.json")
    assert matrix["evidence"] == "contract-only"
    assert {cell["evidence"] for cell in matrix["payload"]["cells"]} == {"contract-only"}
    policy = read_json(tmp_path / "fallback_policy.json")
    assert {entry["fallback"] for entry in policy["payload"]["entries"]} == {None}


def test_observations_that_are_no_evidence_end_the_script_with_two_and_one_line(tmp_path):
    (tmp_path / "o.json").write_text(
        '{"schema_version": "1", "provenance": {}, "cells": [], "evidence": "contract-only"}'
    )
    done = _script(MATRIX, "--observations-json", tmp_path / "o.json", "--output-dir", tmp_path / "new")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_figure_of_a_matrix_that_nobody_measured_is_refused(tmp_path):
    done = _script(MATRIX, "--output-dir", tmp_path / "out", "--figure-table", tmp_path / "table.csv")
    assert done.returncode == 2
    assert "no cell was measured" in done.stderr
    assert not (tmp_path / "table.csv").exists()
