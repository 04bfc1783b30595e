"""A copy of what the set-up reads, on a machine made of stand-ins: no network, no real environment."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "cat", "cut", "dirname", "flock", "grep", "mkdir", "mv", "rm", "sha256sum", "tail", "timeout")

PYTHON = """\
#!{bash}
case "$1" in
  -c) [[ "$2" == *ensurepip* && -n "${{NO_VENV:-}}" ]] && exit 1; exit 0 ;;
  -VV) echo "Python 3.11.7 (stand-in)" ;;
  -V) echo "Python 3.11.7" ;;
  -m) mkdir -p "$3/bin" "$3/lib" && cat "$VENV_PYTHON" >"$3/bin/python" && chmod +x "$3/bin/python" ;;
esac
"""

VENV_PYTHON = """\
#!{bash}
echo "$*" >>"$CALLS"
if [[ -n "${{FAIL_ON:-}}" && "$*" == *$FAIL_ON* && "$*" != *--index-url* ]]; then
  echo "ERROR: $FAIL_WITH"
  exit 1
fi
"""


@dataclass
class Machine:
    """Runs scripts of the copied checkout with a path that holds only what a test put there."""

    root: Path
    bin: Path
    calls_file: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run bash with a script and its arguments."""
        return subprocess.run(
            [self.bin / "bash", *command],
            cwd=self.root,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def set_up(self, *names: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the set-up script."""
        return self.run("tools/setup_env.sh", *names, **env)

    def add_command(self, name: str, text: str) -> None:
        """Put a stand-in for a command on the path."""
        path = self.bin / name
        path.write_text(text.format(bash=self.bin / "bash"))
        path.chmod(0o755)

    def take_calls(self) -> list[str]:
        """Return what the environments' Pythons were called with since the last time, and forget it."""
        calls = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.unlink(missing_ok=True)
        return calls


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine with Python 3.11, its venv module and gcc."""
    root, binaries = tmp_path / "checkout", tmp_path / "bin"
    binaries.mkdir()
    for folder in ("tools", "envs", ".ci"):
        shutil.copytree(REPOSITORY / folder, root / folder)
    shutil.copy2(REPOSITORY / "pyproject.toml", root)
    for tool in (*TOOLS, "chmod"):
        (binaries / tool).symlink_to(shutil.which(tool) or pytest.skip(f"{tool} is not installed"))
    template = tmp_path / "venv_python"
    template.write_text(VENV_PYTHON.format(bash=binaries / "bash"))
    calls = tmp_path / "calls"
    env = {
        "PATH": str(binaries),
        "VENV_PYTHON": str(template),
        "CALLS": str(calls),
        "HOME": os.environ.get("HOME", "/"),
    }
    made = Machine(root, binaries, calls, env)
    made.add_command("python3.11", PYTHON)
    made.add_command("gcc", "#!{bash}\n")
    made.add_command("uname", "#!{bash}\necho Linux x86_64\n")
    return made
