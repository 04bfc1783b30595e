"""A machine-wide lock, so that nothing of ours runs beside a timing. Knows nothing of what it guards."""

import fcntl
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lora_spec.errors import MeasurementError


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")


def _open(path: Path) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            return os.open(path, flags | os.O_CREAT, 0o644)
    except OSError as err:
        raise MeasurementError(f"{path}: the machine's lock cannot be opened ({err}); remove the file") from err


@contextmanager
def machine_lock(
    path: Path | None = None, *, is_shared: bool = False, notify: Callable[[str], None] = _say
) -> Iterator[None]:
    """Hold the machine's lock for a ``with`` block, waiting as long as it takes.

    Timings hold it exclusively; other heavy work holds it shared, so that it never runs beside a timing. The kernel
    lets go when the process ends, however it ends.

    Parameters
    ----------
    path
        Lock file; by default one in the system's temporary folder, common to all users.
    notify
        Called once with a message if the lock has to be waited for.
    """
    path = Path(tempfile.gettempdir()) / "lora-spec-machine.lock" if path is None else path
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    handle = _open(path)
    try:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            notify(f"waiting for the machine ({path}): another measurement holds it")
            fcntl.flock(handle, kind)
        yield
    finally:
        os.close(handle)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold a folder of records for a ``with`` block, so that no second run writes among them.

    Two runs share the reports of their processes and each other's half of the records; the second is refused, since
    waiting would only measure again what the first measures. The kernel lets go when the process ends, however it ends.

    Raises
    ------
    MeasurementError
        Another run holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise MeasurementError(
                f"{folder}: another run is measuring into this folder; wait for its end, or name another folder"
            ) from err
        yield
    finally:
        os.close(handle)
