"""tools/alone.sh: one run per checkout, and a killed run neither blocks the next nor leaves jobs beside it."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "alone.sh"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copy2(SCRIPT, tmp_path)
    return tmp_path


def _start(checkout: Path, command: str, *, close_fds: bool = False) -> subprocess.Popen[str]:
    # Snakemake starts its jobs without the descriptors it inherited, a shell starts its own with them.
    inner = f"exec 9>&-; {command}" if close_fds else command
    return subprocess.Popen(
        ["bash", "alone.sh", "bash", "-c", inner],
        cwd=checkout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait_for(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < end, "what was waited for did not happen within 20 s"
        time.sleep(0.02)


def test_a_second_run_ends_at_once_with_its_own_exit_code(checkout):
    first = _start(checkout, "touch started; exec sleep 60")
    _wait_for((checkout / "started").exists)
    second = _start(checkout, "touch second")
    _, message = second.communicate(timeout=20)
    first.kill()
    first.communicate()
    assert second.returncode == 75
    assert "another run is going on" in message
    assert not (checkout / "second").exists()


def test_a_run_from_inside_a_run_is_refused_and_does_not_wait_for_itself(checkout):
    outer = _start(checkout, "exec bash alone.sh touch inner", close_fds=True)
    _, message = outer.communicate(timeout=20)
    assert (outer.returncode, "from inside a run of this checkout" in message) == (75, True)
    assert not (checkout / "inner").exists()


@pytest.mark.parametrize("does_job_hold_the_lock", [True, False])
def test_jobs_of_a_killed_run_are_waited_for_and_named(checkout, does_job_hold_the_lock):
    job = "(echo $BASHPID >job; while [ ! -e go ]; do sleep 0.05; done; touch job_done) & wait"
    first = _start(checkout, job, close_fds=not does_job_hold_the_lock)
    _wait_for((checkout / "job").exists)
    first.send_signal(signal.SIGKILL)
    first.wait(timeout=20)
    second = _start(checkout, "test -e job_done && echo after the job")
    assert second.stderr is not None
    message = second.stderr.readline()
    (checkout / "go").touch()
    output, _ = second.communicate(timeout=20)
    first.stdout.close()
    first.stderr.close()
    assert (checkout / "job").read_text().strip() in message
    assert output == "after the job\n"


def test_a_stale_lock_file_stops_nothing(checkout):
    (checkout / ".running").write_text(f"{os.getpid()}\n")
    done = _start(checkout, "echo ran")
    assert done.communicate(timeout=20)[0] == "ran\n"


def test_another_checkout_is_not_concerned(checkout, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    shutil.copy2(SCRIPT, other)
    first = _start(checkout, "touch started; exec sleep 60")
    _wait_for((checkout / "started").exists)
    second = _start(other, "echo ran")
    assert second.communicate(timeout=20)[0] == "ran\n"
    first.kill()
    first.communicate()
