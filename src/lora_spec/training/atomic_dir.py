"""A directory that appears whole or not at all, whenever the process is killed."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_dir(out_dir: Path) -> Iterator[Path]:
    """Yield a sibling directory to write into, and rename it to ``out_dir`` when the block ends well.

    What ``out_dir`` held before is replaced: renamed aside, deleted only when the new one is in place. When the
    block raises, ``out_dir`` stays as it was. Siblings that a killed run left are cleaned up at the next start.

    Raises
    ------
    NotADirectoryError
        A file or a link stands at ``out_dir``.
    """
    if out_dir.is_symlink() or (out_dir.exists() and not out_dir.is_dir()):
        raise NotADirectoryError(20, "an output folder cannot replace a file or a link", str(out_dir))
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    _clean_up_after_dead_runs(out_dir)
    part = Path(tempfile.mkdtemp(prefix=f"{_prefix(out_dir, 'part')}{os.getpid()}-", dir=out_dir.parent))
    try:
        yield part
        _share_like_parent(part)
        _swap(part, out_dir)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _prefix(out_dir: Path, role: str) -> str:
    """Return how siblings of this machine begin; the process that owns one follows."""
    return f".{out_dir.name}.{role}-{socket.gethostname()}-"


def _share_like_parent(part: Path) -> None:
    # mkdtemp and safetensors write for their owner alone; a result is as readable as its parent.
    mode = part.parent.stat().st_mode
    part.chmod(mode & 0o777)
    for path in part.rglob("*"):
        path.chmod(mode & (0o777 if path.is_dir() else 0o666))


def _swap(part: Path, out_dir: Path) -> None:
    """Put ``part`` in the place of ``out_dir`` by renames alone: a folder under that name is always whole."""
    if not out_dir.exists():
        part.rename(out_dir)
        return
    old = out_dir.with_name(f"{_prefix(out_dir, 'old')}{os.getpid()}-{part.name[-8:]}")
    out_dir.rename(old)
    part.rename(out_dir)
    shutil.rmtree(old, ignore_errors=True)


def _clean_up_after_dead_runs(out_dir: Path) -> None:
    """Delete siblings whose process on this machine is gone.

    An old folder never comes back, even where it has no successor: it may be half deleted.
    """
    for prefix in (_prefix(out_dir, "old"), _prefix(out_dir, "part")):
        for path in [path for path in out_dir.parent.iterdir() if path.name.startswith(prefix)]:
            if not _is_running(path.name.removeprefix(prefix).partition("-")[0]):
                shutil.rmtree(path, ignore_errors=True)


def _is_running(pid: str) -> bool:
    """Return whether another process of that number runs; this one has not begun, so its number is a dead run's."""
    if not pid.isdecimal():
        return True  # not ours to judge
    if int(pid) == os.getpid():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
