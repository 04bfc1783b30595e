"""The extra for GPUs resolves on a package index, at the versions of its lock."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
LOCK = (REPOSITORY / "envs/serving-gpu.lock").read_text()
PINS = {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+) ", LOCK, re.M)}


def _pip(*words: str, timeout_s: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", *words]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=timeout_s, check=False)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip().splitlines() or ["pip said nothing"])[-1][:200]


@pytest.mark.skipif("CI" not in os.environ, reason="reads 3 GB of wheels from a package index; asked where CI is set")
def test_the_extra_resolves_at_the_versions_of_the_lock_and_at_no_others(tmp_path):
    reached = _pip(
        "download", "--no-deps", "--no-cache-dir", "--retries", "0", "--dest", str(tmp_path), "packaging", timeout_s=120
    )
    if reached.returncode:
        pytest.skip(f"no package index can be reached: {_last_line(reached)}")
    constraints, report = tmp_path / "constraints.txt", tmp_path / "report.json"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in PINS.items()))
    flags = ("--dry-run", "--ignore-installed", "--constraint", str(constraints), "--report", str(report))
    done = _pip("install", *flags, ".[colab]", timeout_s=900)
    assert done.returncode == 0, _last_line(done)
    found = {
        entry["metadata"]["name"]: entry["metadata"]["version"] for entry in json.loads(report.read_text())["install"]
    }
    found = {canonicalize_name(name): version.partition("+")[0] for name, version in found.items()}
    del found["lora-spec"]
    # Where the index holds torch as a CPU build, its CUDA packages are not asked for.
    assert found.items() <= PINS.items()
    assert {"vllm", "torch", "peft", "transformers"} <= set(found)
