"""Find the adapter folders below a folder, once each, without following a link in a circle."""

import os
from collections.abc import Iterator
from pathlib import Path

_MARKS = ("adapter_config.json", "adapter_model", "adapters.safetensors", "adapters.npz", "pytorch_lora_weights")
MAX_DEPTH = 32


def find_adapters(root: Path) -> Iterator[Path]:
    """Yield every folder below ``root`` (itself included) that holds a file of an adapter, in sorted order.

    Links to folders are followed, but no folder is visited twice. Below an adapter its sub-folders are searched as
    well: checkpoints and named adapters lie there. Folders that cannot be listed are passed over.
    """
    yield from _find(root, set(), 0)


def _find(folder: Path, seen: set[tuple[int, int]], depth: int) -> Iterator[Path]:
    try:
        place = folder.stat()
        if (place.st_dev, place.st_ino) in seen or depth > MAX_DEPTH:
            return
        seen.add((place.st_dev, place.st_ino))
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name.startswith(_MARKS) for entry in entries):
        yield folder
    for entry in entries:
        if _is_folder(entry):
            yield from _find(folder / entry.name, seen, depth + 1)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
