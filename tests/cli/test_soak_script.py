"""What the soak's script refuses before anything is started."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("adapters", "message"),
    [(("sql",), "two adapters at least"), (("sql", "stranger"), "no adapter 'stranger'")],
)
def test_too_few_adapters_and_strangers_are_refused_in_one_line(tmp_path, adapters, message):
    command = [sys.executable, "-P", "scripts/soak.py", "--config", "configs/mini/traffic.yaml"]
    command += ["--target", str(tmp_path), "--drafter", str(tmp_path), "--output", str(tmp_path / "soak.json")]
    command += ["--adapters", *(f"{name}=reference/mini/adapters/sql" for name in adapters)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "soak.json").exists()
