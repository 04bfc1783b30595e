"""Where a tier puts what it makes: how much is free there, what lies there already, and whether it can be written."""

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_WRITTEN_BYTES = 1 << 20  # enough for a quota that is used up to be noticed


@dataclass(frozen=True)
class Disk:
    """One file system that folders of a tier lie on; ``why_not`` says why nothing can be written there, if so.

    A quota is not among what a file system tells: only one that is used up is noticed.
    """

    folder: str
    free_gib: float
    why_not: str | None = None


def look_at_disks(folders: Collection[Path]) -> tuple[Disk, ...]:
    """Return the file systems of some folders, each once, by the first folder on it; folders may be yet to be made."""
    first: dict[int, Path] = {}
    for folder in map(_nearest, folders):
        first.setdefault(folder.stat().st_dev, folder)
    return tuple(map(_look_at, first.values()))


def held_gib(folders: Collection[Path]) -> float:
    """Return what lies in some folders already, links not followed; a folder inside another one counts once."""
    real = {folder.resolve() for folder in folders}
    outer = [folder for folder in real if not any(other in real for other in folder.parents)]
    return sum(size for folder in outer for size in _sizes(folder)) / 2**30


def _nearest(folder: Path) -> Path:
    """Return the folder, its link followed, or the first one above that is there."""
    there = folder.resolve()
    return next((path for path in (there, *there.parents) if path.is_dir()), Path("/"))


def _look_at(folder: Path) -> Disk:
    free = 0.0
    try:
        free = shutil.disk_usage(folder).free / 2**30
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(bytes(_WRITTEN_BYTES))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as err:
        return Disk(str(folder), free, _words(err))
    return Disk(str(folder), free)


def _words(err: OSError) -> str:
    return err.strerror or type(err).__name__


def _sizes(folder: Path) -> Iterator[int]:
    """Yield the size of every file below a folder; one that goes away meanwhile, or may not be read, has none."""
    for above, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(os.path.join(above, name)).st_size  # noqa: PTH118 - no path object for each of many
            except OSError:
                continue
