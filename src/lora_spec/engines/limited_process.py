"""Run a program in a process group of its own, with a time limit and a log. Knows nothing of what it does."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

_GRACE_S = 5.0
# What is kept of a log goes into a result: a program that prints without end must not fill memory or files.
_MAX_TAIL_BYTES = 1 << 16
_MAX_LINE_CHARACTERS = 1000
# By default the last two end Python on the spot; the hang-up comes when a terminal or a connection is closed.
_ORDERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class ProcessEnd:
    """How a program ended; ``exit_code`` is negative for a signal and None where the time limit ended it."""

    exit_code: int | None
    wall_s: float
    log_tail: tuple[str, ...]

    @property
    def is_timeout(self) -> bool:
        """Return whether the time limit ended it."""
        return self.exit_code is None


def run_limited(
    command: Sequence[str],
    *,
    timeout_s: float,
    log: Path,
    num_tail_lines: int = 12,
    environment: Mapping[str, str] | None = None,
) -> ProcessEnd:
    """Run a command to its end or to its time limit, stdout and stderr in ``log``.

    Whatever ends it, an order to this process to end included, nothing of its process group is left running.
    """
    started = time.monotonic()
    with _Orders() as orders:
        process = start_in_group(command, log=log, environment=environment)
        try:
            with orders.heeded():
                exit_code: int | None = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            end_group(process)
    return ProcessEnd(exit_code, time.monotonic() - started, log_tail(log, num_tail_lines))


def start_in_group(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start a command as the leader of a process group of its own, stdout and stderr in ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )


class _Orders:
    """Turns orders to end into SystemExit, so that what has to be cleared up is.

    While they are not heeded (a program is being started, or ended) an order waits: raised there, it would leave a
    process that nobody knows of.
    """

    def __init__(self) -> None:
        self._came: int | None = None
        self._is_heeding = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "_Orders":
        if threading.current_thread() is threading.main_thread():
            # An order that this process was started to ignore (nohup) stays ignored.
            ours = [order for order in _ORDERS if signal.getsignal(order) not in (signal.SIG_IGN, None)]
            self._before = {order: signal.signal(order, self._receive) for order in ours}
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        for order, handler in self._before.items():
            signal.signal(order, handler)
        if error is None:
            self._leave_if_told()

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Leave at once, here, when an order comes or has come."""
        self._is_heeding = True
        try:
            self._leave_if_told()
            yield
        finally:
            self._is_heeding = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._came = number
        if self._is_heeding:
            self._leave_if_told()

    def _leave_if_told(self) -> None:
        if self._came is not None:
            sys.exit(128 + self._came)


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of the group: asked first, then killed; the leader's children may outlive it."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except (ProcessLookupError, PermissionError):
            break
        try:
            process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def log_tail(log: Path, num_lines: int) -> tuple[str, ...]:
    """Return the last lines of a log that are not empty, however long it is."""
    with log.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - _MAX_TAIL_BYTES))
        lines = stream.read(_MAX_TAIL_BYTES).decode(errors="replace").splitlines()
    return tuple(line.rstrip()[-_MAX_LINE_CHARACTERS:] for line in lines if line.strip())[-num_lines:]
