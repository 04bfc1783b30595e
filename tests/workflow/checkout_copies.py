"""Copies of the checkout to run Snakemake in, for tests that share one and for tests that have their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "rules", "scripts", "configs", "profiles", "report", "reference")


def copy_checkout(root: Path) -> Path:
    """Fill a folder with everything that the workflow reads, without results, and return it."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, root / part)
        else:
            shutil.copy2(source, root / part)
    return root


def run_snakemake(root: Path, *flags: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a copy."""
    return subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", *flags],
        cwd=root,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
