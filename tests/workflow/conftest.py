"""Snakemake runs in a copy of the checkout, so that tests never touch its results."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from checkout_copies import PARTS, ROOT, copy_checkout, run_snakemake

Snakemake = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of everything that the workflow reads, without results."""
    return copy_checkout(tmp_path)


@pytest.fixture
def snakemake(checkout: Path) -> Snakemake:
    """Return a function that runs Snakemake in the copy."""
    return partial(run_snakemake, checkout)


@pytest.fixture
def job_counts() -> Callable[[subprocess.CompletedProcess[str]], dict[str, int]]:
    """Return a function that reads rule name to number of jobs from the table that a run prints."""

    def read(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
        table = (done.stdout + done.stderr).rpartition("Job stats:")[2]
        return {name: int(count) for name, count in re.findall(r"^(\w+)\s+(\d+)$", table, re.M) if name != "total"}

    return read


@pytest.fixture(scope="session")
def planning_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one copy for all tests that only plan; it holds the library too, so that a test may edit that."""
    root = tmp_path_factory.mktemp("plans")
    for part in (*PARTS, "src"):
        if part == "reference":
            (root / part).symlink_to(ROOT / part)
        elif (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / part, root / part)
    return root


@pytest.fixture(scope="session")
def run_in_planning_root(planning_root: Path) -> Callable[..., str]:
    """Return a function that runs a script there with the library there, and returns what it prints."""

    def run(script: Path, *flags: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", script, *flags],
            cwd=planning_root,
            env={**os.environ, "PYTHONPATH": str(planning_root / "src")},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def plan_of(run_in_planning_root: Callable[..., str]) -> Callable[[str], dict[str, Any]]:
    """Return a function that gives the plan of a tier's fresh run as data; each is made once."""

    @cache
    def plan(tier: str) -> dict[str, Any]:
        asked = {"config": {"tier": tier, "measurements": "fresh"}, "edits": []}
        return json.loads(run_in_planning_root(Path(__file__).with_name("plan_as_json.py"), json.dumps(asked)))["plan"]

    return plan


@pytest.fixture(scope="session")
def reruns(run_in_planning_root: Callable[..., str]) -> Callable[..., dict[str, set[str]]]:
    """Return a function that gives the rules that each of some edits runs again by itself.

    Edits are ``(name, path, old text, new text)``, and undone.
    """

    def find(tier: str, *edits: tuple[str, str, str, str]) -> dict[str, set[str]]:
        asked = {"config": {"tier": tier, "measurements": "fresh"}, "edits": edits}
        told = json.loads(run_in_planning_root(Path(__file__).with_name("plan_as_json.py"), json.dumps(asked)))
        return {name: set(rules) for name, rules in told["reruns"].items()}

    return find
