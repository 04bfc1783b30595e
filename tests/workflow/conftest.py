"""Snakemake runs in a copy of the checkout, so that tests never touch its results."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "rules", "scripts", "configs", "profiles", "report", "reference")

Snakemake = Callable[..., subprocess.CompletedProcess[str]]
Plans = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of everything that the workflow reads, without results."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, tmp_path / part)
        else:
            shutil.copy2(source, tmp_path / part)
    return tmp_path


@pytest.fixture
def snakemake(checkout: Path) -> Snakemake:
    """Return a function that runs Snakemake in the copy."""

    def run(*flags: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "snakemake", "--cores", "2", *flags],
            cwd=checkout,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    return run


@pytest.fixture
def job_counts() -> Callable[[subprocess.CompletedProcess[str]], dict[str, int]]:
    """Return a function that reads rule name to number of jobs from the table that a run prints."""

    def read(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
        table = (done.stdout + done.stderr).rpartition("Job stats:")[2]
        return {name: int(count) for name, count in re.findall(r"^(\w+)\s+(\d+)$", table, re.M) if name != "total"}

    return read


@pytest.fixture(scope="session")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Plans:
    """Return a function that gives the plan of a tier as data, and the plan after each of some edits.

    Edits are ``(name, path, old text, new text)`` and undone; library files are edited in a copy, which the workflow
    then imports. One copy serves all tests, and plans without edits are made once.
    """
    root = tmp_path_factory.mktemp("plans")
    for part in (*PARTS, "src"):
        if part == "reference":
            (root / part).symlink_to(ROOT / part)
        elif (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / part, root / part)

    @cache
    def plan(tier: str, *edits: tuple[str, str, str, str], measurements: str = "fresh") -> dict[str, dict[str, Any]]:
        asked = {"config": {"tier": tier, "measurements": measurements}, "edits": edits}
        done = subprocess.run(
            [sys.executable, "-P", Path(__file__).with_name("plan_as_json.py"), json.dumps(asked)],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root / "src")},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return plan
