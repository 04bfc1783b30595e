"""Memory and processor time of a process and all that it started (Linux)."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from lora_spec.measurement.machine_load import busy_seconds


def tree_rss_mib(leader_pid: int) -> dict[str, float]:
    """Return the resident memory of a process and all its descendants, MiB, by name; those of one name are added.

    vLLM names its processes (``VLLM::EngineCore``); the others go by their program.
    """
    page_mib = os.sysconf("SC_PAGE_SIZE") / 2**20
    found: dict[str, float] = {}
    for pid in _with_descendants(leader_pid):
        if pages := _resident_pages(pid):
            name = _name(pid)
            found[name] = found.get(name, 0.0) + pages * page_mib
    return found


def tree_cpu_s(leader_pid: int) -> float:
    """Return the processor time of a process and all its descendants, those that have ended and were waited for too."""
    return sum(_cpu_ticks(pid) for pid in _with_descendants(leader_pid)) / os.sysconf("SC_CLK_TCK")


def _with_descendants(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # the thread has ended meanwhile
            continue
        for child in children:
            yield from _with_descendants(int(child))


def _name(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # the process has ended meanwhile
        return "ended"
    words = command.replace(b"\0", b" ").split()
    return Path(words[0].decode(errors="replace")).name if words else "ended"


def _resident_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:  # the process has ended meanwhile
        return 0


def _cpu_ticks(pid: int) -> int:
    try:
        # The name, in parentheses, may hold anything; what follows the last one is numbers.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(field) for field in fields[11:15])  # utime, stime, cutime, cstime


class TrialMeter:
    """Who used how many cores during a ``with`` block: the server's processes, this one, and all others.

    Set on leaving: ``server_cores``, ``other_cores``, and the machine's load averages ``load_before``, ``load_after``.
    """

    server_cores: float
    other_cores: float
    load_before: float
    load_after: float

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid

    def __enter__(self) -> Self:
        self.load_before = os.getloadavg()[0]
        self._before = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wall, busy, own, server = (late - early for late, early in zip(self._read(), self._before, strict=True))
        self.server_cores = max(0.0, server / wall)
        self.other_cores = max(0.0, (busy - own - server) / wall)
        self.load_after = os.getloadavg()[0]

    def _read(self) -> tuple[float, float, float, float]:
        own = os.times()
        return time.monotonic(), busy_seconds(), own.user + own.system, tree_cpu_s(self._server_pid)
