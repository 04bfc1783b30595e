"""Open files that may be hostile: never wait on a FIFO, never trust a length, notice when a file changes."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from lora_spec.errors import AdapterError
from lora_spec.printing import printable

# Without O_NONBLOCK the open of a FIFO that replaced the file after the check would wait for a writer.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)


class RegularFile:
    """A regular file opened once; links are followed, everything that is not a regular file is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self._fd = -1
        try:
            before = path.stat()
            _refuse_irregular(path, before)
            self._fd = os.open(path, _FLAGS)
            found = os.fstat(self._fd)
            _refuse_irregular(path, found)
        except OSError as err:
            self.close()
            raise AdapterError(_tell(path, err), codes=_codes(path)) from err
        except AdapterError:
            self.close()
            raise
        self.size = found.st_size
        self.bytes_on_disk = min(found.st_size, 512 * getattr(found, "st_blocks", 0))
        self._identity = _identity(found)

    def read_at(self, offset: int, length: int) -> bytearray:
        """Return exactly ``length`` bytes from ``offset``.

        Raises
        ------
        AdapterError
            ``E_TRUNCATED``: the file has become shorter since it was opened, or cannot be read there.
        """
        buffer = bytearray(length)
        self.read_into(memoryview(buffer), offset)
        return buffer

    def read_into(self, view: memoryview, offset: int) -> None:
        """Fill a buffer from ``offset`` on; raises like :meth:`read_at`."""
        done = 0
        while done < len(view):
            try:
                got = os.preadv(self._fd, [view[done:]], offset + done)
            except OSError as err:
                raise AdapterError(
                    f"{printable(self.name)}: {err.strerror}; read it again", codes=["E_TRUNCATED"]
                ) from err
            if got == 0:
                raise AdapterError(
                    f"{printable(self.name)}: ends at byte {offset + done} while being read; copy it again",
                    codes=["E_TRUNCATED"],
                )
            done += got

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of ``start`` to ``end`` that are stored; what lies between them is a hole: zeros."""
        while start < end:
            try:
                first = os.lseek(self._fd, start, os.SEEK_DATA)
                last = os.lseek(self._fd, first, os.SEEK_HOLE)
            except (OSError, AttributeError) as err:
                if getattr(err, "errno", None) == errno.ENXIO:  # nothing but a hole up to the end of the file
                    return
                first, last = start, end  # a system that knows no holes
            if first >= end:
                return
            yield first, min(last, end)
            start = last

    def refuse_if_changed(self) -> None:
        """Raise AdapterError if the file was written, cut, replaced or removed since it was opened."""
        found = os.fstat(self._fd)
        if found.st_size < self.size:
            raise AdapterError(
                f"{printable(self.name)}: became shorter while being read; copy it again", codes=["E_TRUNCATED"]
            )
        if _identity(found) != self._identity:
            raise AdapterError(
                f"{printable(self.name)}: was written to or replaced while being read; "
                "inspect it again when the writer is done",
                codes=["E_UNSAFE_FILE"],
            )

    def close(self) -> None:
        """Close the file; more than once is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "RegularFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_whole(path: Path, max_bytes: int) -> tuple[bytes, int]:
    """Return the first ``max_bytes`` bytes of a regular file and its size."""
    with RegularFile(path) as file:
        data = bytes(file.read_at(0, min(file.size, max_bytes)))
        return data, file.size


def _identity(found: os.stat_result) -> tuple[int, ...]:
    # The time of change too: a writer can set back the time of modification, and a file that is replaced keeps it.
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _refuse_irregular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise AdapterError(
            f"{printable(path.name)}: is a {_kind(found.st_mode)}, not a regular file; put the real file there",
            codes=["E_UNSAFE_FILE"],
        )


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "folder",
        stat.S_IFIFO: "FIFO",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "character device",
        stat.S_IFBLK: "block device",
    }
    return kinds.get(stat.S_IFMT(mode), "special file")


def _codes(path: Path) -> list[str]:
    # A link that leads nowhere is both: no file is there, and what is there is no regular file.
    return ["E_UNSAFE_FILE", "E_NOT_ADAPTER"] if path.is_symlink() else ["E_NOT_ADAPTER"]


def _tell(path: Path, err: OSError) -> str:
    kind = "link that leads nowhere" if path.is_symlink() else "file"
    return f"{printable(path.name)}: {kind} that cannot be opened ({err.strerror}); download or copy it again"
