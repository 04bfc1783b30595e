"""What lies in an adapter folder: which file holds the weights, what else is there, and what it is not."""

import os
import re
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lora_spec.adapter import foreign
from lora_spec.adapter.findings import Findings
from lora_spec.errors import AdapterError
from lora_spec.printing import printable

CONFIG_NAME = "adapter_config.json"
WEIGHTS_NAME = "adapter_model.safetensors"
INDEX_NAME = f"{WEIGHTS_NAME}.index.json"
_MAX_NAMES = 20_000
_MAX_FOLDERS_SEARCHED = 500
_NEW_EMBEDDINGS = "new_embeddings.safetensors"


class Folder(NamedTuple):
    """The names in an adapter folder; the first of them only, if ``is_cut``."""

    path: Path
    names: tuple[str, ...]
    is_cut: bool = False

    def holds(self, name: str) -> bool:
        """Tell whether something in the folder bears a name, also where too many names were there to list all."""
        return name in self.names or (self.is_cut and os.path.lexists(self.path / name))

    @property
    def has_config(self) -> bool:
        """Tell whether something bears the config's name."""
        return self.holds(CONFIG_NAME)

    @property
    def has_weights(self) -> bool:
        """Tell whether something bears the name of the weights or of their index."""
        return self.holds(WEIGHTS_NAME) or self.holds(INDEX_NAME)


def list_folder(path: Path) -> Folder:
    """Return what an adapter folder holds.

    Raises
    ------
    AdapterError
        The path is no folder (``E_NOT_ADAPTER``, and what it is instead) or cannot be listed.
    """
    shown = printable(path)
    try:
        with os.scandir(path) as found:
            names = [entry.name for entry in islice(found, _MAX_NAMES + 1)]
    except NotADirectoryError as err:
        raise _no_folder(path, shown) from err
    except FileNotFoundError as err:
        raise AdapterError(f"{shown}: no such folder; give the adapter's folder", codes=["E_NOT_ADAPTER"]) from err
    except (OSError, ValueError) as err:
        codes = ["E_NOT_ADAPTER", "E_UNSAFE_FILE"]
        raise AdapterError(f"{shown}: cannot be listed ({printable(err)}); check the path", codes=codes) from err
    return Folder(path, tuple(sorted(names[:_MAX_NAMES])), is_cut=len(names) > _MAX_NAMES)


def _no_folder(path: Path, shown: str) -> AdapterError:
    if path.is_file():
        recognised = foreign.recognise_name(path.name)
        code, what = recognised or ("E_NOT_ADAPTER", "is a file; give the folder that holds it")
        return AdapterError(f"{shown}: {what}", codes=["E_NOT_ADAPTER", code] if recognised else [code])
    return AdapterError(
        f"{shown}: is neither folder nor file; give the adapter's folder", codes=["E_NOT_ADAPTER", "E_UNSAFE_FILE"]
    )


def note_other_files(folder: Folder, used: set[str], findings: Findings) -> None:
    """Record weight and trainer files that were not read, and embeddings for an extended vocabulary."""
    if folder.is_cut:
        findings.add("N_IGNORED_FILE", "", f"the folder holds more than {_MAX_NAMES} names; not all were looked at")
    for name in folder.names:
        if name in used:
            continue
        if name == _NEW_EMBEDDINGS:
            findings.add(
                "A_VOCAB_CHANGED", name, "holds embeddings of added tokens: the draft model does not know them"
            )
        if re.fullmatch(foreign.TRAINER_FILES, name) or re.fullmatch(foreign.WEIGHT_FILES, name):
            findings.add("N_IGNORED_FILE", name, "was not read")


def explain_missing(folder: Folder, findings: Findings) -> None:
    """Record why a folder without usable files is no adapter: what it holds instead, and where to look."""
    missing = [
        name for name, there in ((CONFIG_NAME, folder.has_config), (WEIGHTS_NAME, folder.has_weights)) if not there
    ]
    foreign_codes = set() if folder.has_weights else _record_foreign(folder, findings)
    if foreign_codes and folder.has_config:
        return
    findings.add("E_NOT_ADAPTER", " and ".join(missing), f"not in this folder{_where_else(folder)}")


def _record_foreign(folder: Folder, findings: Findings) -> set[str]:
    codes = set()
    for name in folder.names:
        recognised = foreign.recognise_name(name)
        if recognised:
            findings.add(recognised[0], name, recognised[1])
            codes.add(recognised[0])
        elif _is_shard_name(name):
            findings.add("E_SHARDS", name, f"is a shard, but {INDEX_NAME} is missing; download it too")
            codes.add("E_SHARDS")
    return codes


def _is_shard_name(name: str) -> bool:
    return name.startswith("adapter_model-") and name.endswith(".safetensors")


def _where_else(folder: Folder) -> str:
    inside = _find_below(folder.path)
    if len(inside) == 1:
        return f"; its sub-folder {printable(inside[0])} holds an adapter: give that one"
    if inside:
        return f"; {len(inside)} sub-folders hold adapters ({', '.join(map(printable, inside[:3]))}): give one of them"
    near = [name for name in folder.names if name != CONFIG_NAME and name.endswith("adapter_config.json")]
    if near:
        return f"; {printable(near[0])} looks like a renamed config: rename it to {CONFIG_NAME}"
    if "config.json" in folder.names or any(name.startswith("model") for name in folder.names):
        return "; this looks like a whole model (merged?): give the adapter it was merged from"
    others = [name for name in folder.names if name.endswith(".safetensors")]
    if others:
        return f"; if {printable(others[0])} holds the adapter, rename it to {WEIGHTS_NAME}"
    return "; give the folder that PEFT's save_pretrained wrote"


def _find_below(path: Path) -> list[str]:
    """Return sub-folders, at most three levels down, that hold an adapter config; links are not followed."""
    found, queue, searched = [], [(path, 0)], 0
    while queue and searched < _MAX_FOLDERS_SEARCHED:
        current, depth = queue.pop(0)
        searched += 1
        try:
            with os.scandir(current) as entries:
                inside = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)][
                    :_MAX_FOLDERS_SEARCHED
                ]
        except OSError:
            continue  # a sub-folder that cannot be listed cannot be suggested
        for name in sorted(inside):
            below = current / name
            if os.path.lexists(below / CONFIG_NAME):
                found.append(below.relative_to(path).as_posix())
            if depth < 2:
                queue.append((below, depth + 1))
    return found
