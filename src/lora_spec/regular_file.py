"""Whole files that are really files: a FIFO never blocks, a device never fills memory, a size has a limit."""

import errno
import os
import stat
from pathlib import Path

# Without O_NONBLOCK the open of a FIFO that replaced the file after the check would wait for a writer.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind_if_irregular(path: Path) -> str | None:
    """Return what stands at a path, links followed, if it is no regular file; None where nothing or a file stands."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no regular file")


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """Return all bytes of a regular file.

    Raises
    ------
    OSError
        It is missing, cannot be opened, is no regular file, or holds more than ``max_bytes``; ``strerror`` says which.
    """
    if kind := kind_if_irregular(path):
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
    handle = os.open(path, _FLAGS)
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        # Read one byte more than allowed: a file in /proc, or one that grows, is larger than its size says.
        data = stream.read(max_bytes + 1) if found.st_size <= max_bytes else b""
    if found.st_size > max_bytes or len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes >> 20} MiB", str(path))
    return data
