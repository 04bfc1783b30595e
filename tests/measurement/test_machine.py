import os
import subprocess
import sys
import textwrap
import time

import pytest

from lora_spec.errors import MeasurementError
from lora_spec.measurement import OtherCpuMeter, machine_load, machine_lock
from lora_spec.measurement.lock import folder_lock


def _holder(path, is_shared):
    code = f"""
    import sys
    from pathlib import Path
    from lora_spec.measurement.lock import machine_lock
    with machine_lock(Path({str(path)!r}), is_shared={is_shared}):
        print("held", flush=True)
        sys.stdin.readline()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def _release(process):
    process.communicate("\n", timeout=30)


def test_a_second_process_waits_and_says_so(tmp_path):
    path = tmp_path / "lock"
    holder = _holder(path, is_shared=False)
    said = []

    def notify(message):
        said.append(message)
        _release(holder)

    with machine_lock(path, notify=notify):
        assert holder.returncode == 0
    assert "waiting for the machine" in said[0]


def test_shared_holders_do_not_wait_for_each_other(tmp_path):
    path = tmp_path / "lock"
    holder = _holder(path, is_shared=True)
    with machine_lock(path, is_shared=True, notify=pytest.fail):
        pass
    _release(holder)


def test_a_folder_has_one_run_at_a_time_and_a_killed_one_lets_go(tmp_path):
    folder = tmp_path / "records"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nfrom pathlib import Path\nfrom lora_spec.measurement.lock import folder_lock\n"
            f"with folder_lock(Path({str(folder)!r})):\n    print('held', flush=True)\n    sys.stdin.readline()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(MeasurementError, match="another run is measuring into this folder"), folder_lock(folder):
        pytest.fail("held by two")
    with folder_lock(tmp_path / "others"):
        holder.kill()
    holder.communicate(timeout=30)
    with folder_lock(folder), folder_lock(tmp_path / "others"):
        assert sorted(path.name for path in folder.iterdir()) == [".lock"]


def test_a_killed_holder_lets_go(tmp_path):
    path = tmp_path / "lock"
    holder = _holder(path, is_shared=False)
    holder.kill()
    holder.communicate(timeout=30)
    with machine_lock(path, notify=pytest.fail):
        pass


def test_a_link_in_the_lock_s_place_is_refused(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MeasurementError, match="cannot be opened"), machine_lock(tmp_path / "lock"):
        pass


def _write_stat(path, *, user, idle=0, steal=0):
    ticks = os.sysconf("SC_CLK_TCK")
    fields = (round(user * ticks), 0, 0, idle * ticks, 0, 0, 0, steal * ticks, 0, 0)
    path.write_text("cpu  " + " ".join(map(str, fields)) + "\ncpu0 0 0 0 0 0 0 0 0 0 0\n")


@pytest.mark.parametrize("kind", ["user", "steal"])
def test_work_of_others_and_of_the_host_is_seen(tmp_path, monkeypatch, kind):
    stat = tmp_path / "stat"
    monkeypatch.setattr(machine_load, "_STAT", stat)
    _write_stat(stat, user=1000)
    started = time.monotonic()
    with OtherCpuMeter() as meter:
        _write_stat(stat, **{"user": 1000} | {kind: 6000})
    expected = (6000 - 1000 * (kind == "user")) / (time.monotonic() - started)
    # The block's own CPU time is below its wall time, far below the 5000 s of the others.
    assert meter.other_cores >= 0.99 * expected


def test_idle_time_and_our_own_work_are_not_counted(tmp_path, monkeypatch):
    stat = tmp_path / "stat"
    monkeypatch.setattr(machine_load, "_STAT", stat)
    _write_stat(stat, user=1000, idle=10)
    with OtherCpuMeter() as meter:
        used = time.process_time()
        while time.process_time() - used < 0.2:
            sum(range(1000))
        _write_stat(stat, user=1000 + (time.process_time() - used), idle=9999)
    assert meter.other_cores < 0.2


def test_a_machine_that_does_not_say_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_load, "_STAT", tmp_path / "missing")
    with pytest.raises(MeasurementError, match="cannot be read"), OtherCpuMeter():
        pass
