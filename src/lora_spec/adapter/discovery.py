"""Find the adapter folders below a folder, once each, without leaving it through a link."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MARKS = re.compile(
    r"adapter_config\.json|adapter_model(?:[-.].+)?\.(?:safetensors|bin|pt|pth|gguf|index\.json)"
    r"|(?:\d+_)?adapters\.(?:safetensors|npz)|pytorch_lora_weights\..+|ggml-adapter.*\.(?:bin|gguf)"
)
MAX_DEPTH = 32


class PassedOver(NamedTuple):
    """A folder that was not searched, or that was searched and left out, and why."""

    path: Path
    reason: str


def find_adapters(root: Path, passed_over: list[PassedOver] | None = None) -> Iterator[Path]:
    """Yield every folder below ``root`` (itself included) that holds a file of an adapter, in sorted order.

    ``root`` may be a link; links to folders below it are not followed, since they may lead anywhere. Below an adapter
    its sub-folders are searched as well: checkpoints and named adapters lie there. Folders that may hold adapters but
    are passed over are added to ``passed_over``.
    """
    yield from _find(root, set(), 0, [] if passed_over is None else passed_over)


def _find(folder: Path, seen: set[tuple[int, int]], depth: int, passed_over: list[PassedOver]) -> Iterator[Path]:
    if depth > MAX_DEPTH:
        passed_over.append(PassedOver(folder, f"lies deeper than {MAX_DEPTH} levels; give it as a folder of its own"))
        return
    try:
        place = folder.stat()
        if (place.st_dev, place.st_ino) in seen:
            return
        seen.add((place.st_dev, place.st_ino))
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as err:
        if depth:  # the root itself is inspected where nothing is found, and then told
            passed_over.append(PassedOver(folder, f"cannot be listed ({err.strerror})"))
        return
    files = [entry.name for entry in entries if not _is_folder(entry)]
    if any(map(_MARKS.fullmatch, files)):
        yield folder
    elif any(name.endswith(".gguf") for name in files):
        passed_over.append(PassedOver(folder, "holds GGUF files only; inspect the adapter they were converted from"))
    for entry in entries:
        if not _is_folder(entry):
            continue
        if entry.is_symlink():
            passed_over.append(PassedOver(folder / entry.name, "is a link to a folder; give its target to search it"))
        else:
            yield from _find(folder / entry.name, seen, depth + 1, passed_over)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
