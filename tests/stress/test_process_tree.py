"""Memory and time of a process with children, against what they were told to take."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lora_spec.stress.process_tree import TrialMeter, tree_cpu_s, tree_rss_mib

BUSY = (
    "import time; end = time.process_time() + {s}\nwhile time.process_time() < end: pass\nprint('done', flush=True); "
)
PARENT = (
    "import subprocess, sys, time\n"
    "held = bytearray(50 * 2**20)\n"
    "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE)\n"
    "child.stdout.readline(); print('ready', flush=True); time.sleep(60)\n"
)


@pytest.fixture
def parent():
    """Return a process with 50 MiB, whose child has computed for 0.4 s and lives."""
    child = BUSY.format(s=0.4) + "time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", PARENT, child], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process.pid
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        for pid in children:
            os.kill(int(pid), 9)


def test_a_childs_time_and_memory_count(parent):
    assert 0.4 <= tree_cpu_s(parent) < 2.0
    assert sum(tree_rss_mib(parent).values()) > 50


def test_a_process_that_is_gone_has_none():
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert tree_cpu_s(process.pid) == 0
    assert tree_rss_mib(process.pid) == {}


def test_memory_is_told_by_the_name_that_a_process_gave_itself():
    with subprocess.Popen(["bash", "-c", "exec -a 'VLLM::EngineCore' sleep 60 & echo $!; wait"], stdout=-1) as shell:
        child = int(shell.stdout.readline())
        deadline = time.monotonic() + 5
        while set(found := tree_rss_mib(shell.pid)) != {"bash", "VLLM::EngineCore"} and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(child, 9)
    assert set(found) == {"bash", "VLLM::EngineCore"}
    assert min(found.values()) > 0


def test_what_the_server_uses_is_not_counted_as_others():
    with subprocess.Popen([sys.executable, "-c", BUSY.format(s=1.0)], stdout=subprocess.PIPE) as server:
        with TrialMeter(server.pid) as meter:
            time.sleep(0.6)
        server.stdout.readline()
    assert meter.server_cores > 0.1
    assert meter.other_cores <= os.cpu_count() - meter.server_cores + 0.1
    assert min(meter.load_before, meter.load_after) >= 0
