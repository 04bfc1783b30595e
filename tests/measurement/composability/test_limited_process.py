"""A program that hangs, dies or prints: how it ended is told, and nothing of it is left running."""

import os
import signal
import subprocess
import sys
import time

import pytest

from lora_spec.engines.limited_process import run_limited


def _run(code, tmp_path, timeout_s=20.0):
    return run_limited([sys.executable, "-c", code], timeout_s=timeout_s, log=tmp_path / "new" / "log.txt")


def test_the_last_lines_of_both_streams_are_kept(tmp_path):
    end = _run("import sys\nfor i in range(40): print(i)\nprint('bad', file=sys.stderr, flush=True)", tmp_path)
    assert end.exit_code == 0
    assert len(end.log_tail) == 12
    assert "39" in end.log_tail
    assert (tmp_path / "new" / "log.txt").read_text().count("\n") == 41


def test_a_death_by_signal_is_a_negative_exit_code(tmp_path):
    assert _run("import os; os.abort()", tmp_path).exit_code == -6


@pytest.mark.parametrize("deaf", ["", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"])
def test_the_time_limit_ends_the_whole_group(tmp_path, monkeypatch, deaf):
    monkeypatch.setattr("lora_spec.engines.limited_process._GRACE_S", 0.2)
    code = f"{deaf}import subprocess, sys, time\nchild = subprocess.Popen(['sleep', '60'])\n"
    end = _run(code + "print(child.pid, flush=True)\ntime.sleep(60)", tmp_path, timeout_s=1.0)
    assert end.is_timeout
    assert end.wall_s < 10
    assert _is_gone(int(end.log_tail[0]))


def test_children_that_outlive_their_parent_are_ended_too(tmp_path):
    code = "import subprocess\nprint(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    end = _run(code, tmp_path)
    assert end.exit_code == 0
    assert _is_gone(int(end.log_tail[0]))


def test_of_a_log_without_end_a_bounded_tail_is_kept(tmp_path):
    end = _run("import sys\nfor _ in range(3000): print('\u00e9' * 99)\nprint('x' * 10**6)", tmp_path)
    assert end.log_tail == ("x" * 1000,)
    assert len(_run("for _ in range(3000): print('\u00e9' * 99)", tmp_path).log_tail) == 12


@pytest.mark.parametrize("order", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_order_to_end_takes_the_program_along(tmp_path, order):
    code = (
        # Under nohup or in the background, what starts the tests ignores some orders, and its children with it.
        f"import signal\nsignal.signal({int(order)}, signal.SIG_DFL)\n"
        "import sys\nfrom pathlib import Path\nfrom lora_spec.engines.limited_process import run_limited\n"
        f"run_limited(['sh', '-c', 'echo $$; sleep 60'], timeout_s=60, log=Path({str(tmp_path / 'log')!r}))"
    )
    runner = subprocess.Popen([sys.executable, "-c", code])
    log = tmp_path / "log"
    while not (log.exists() and log.read_text().strip()):
        time.sleep(0.05)
    runner.send_signal(order)
    assert runner.wait(timeout=20) == 128 + order
    assert _is_gone(int(log.read_text()))


def test_an_order_that_comes_while_the_program_starts_is_heeded_once_it_can_be_ended(tmp_path, monkeypatch):
    started = []

    def start(*args, **options):
        started.append(popen(*args, **options))
        os.kill(os.getpid(), signal.SIGTERM)
        return started[0]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(SystemExit) as left:
        _run("import time; time.sleep(60)", tmp_path)
    assert left.value.code == 128 + signal.SIGTERM
    assert started[0].returncode is not None
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_hang_up_that_is_ignored_stays_ignored(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        end = _run("import os, signal; os.kill(os.getppid(), signal.SIGHUP)", tmp_path)
        assert end.exit_code == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def _is_gone(pid):
    """Return whether a process ended, or waits only for someone to read its status."""
    for _ in range(50):
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat") as stream:  # noqa: PTH123 - not a file of ours
                if stream.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.1)
    return False
