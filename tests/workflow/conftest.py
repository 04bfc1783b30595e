"""Snakemake runs in a copy of the checkout, so that tests never touch its results."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "rules", "scripts", "configs", "profiles", "report", "reference")

Snakemake = Callable[..., subprocess.CompletedProcess[str]]


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
