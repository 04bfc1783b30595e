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

_GRACE_S = 5.0


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
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("wb") as stream, _termination_as_exit():
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        try:
            exit_code: int | None = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            _end_group(process)
    return ProcessEnd(exit_code, time.monotonic() - started, _tail(log, num_tail_lines))


@contextmanager
def _termination_as_exit() -> Iterator[None]:
    """Turn SIGTERM into SystemExit, so that what has to be cleared up is: by default it ends Python on the spot."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end_group(process: "subprocess.Popen[bytes]") -> None:
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


def _tail(log: Path, num_lines: int) -> tuple[str, ...]:
    lines = log.read_bytes().decode(errors="replace").splitlines()
    return tuple(line.rstrip() for line in lines if line.strip())[-num_lines:]
