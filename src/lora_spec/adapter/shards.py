"""The weight files of an adapter: one file, or the shards that an index names."""

import re
from pathlib import Path

from lora_spec.adapter import foreign
from lora_spec.adapter.files import RegularFile
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.folder import INDEX_NAME, WEIGHTS_NAME, Folder
from lora_spec.adapter.header import TensorEntry, header_bytes, looks_like_safetensors, read_header
from lora_spec.adapter.limits import MAX_INDEX_BYTES, MAX_JSON_VALUES
from lora_spec.errors import AdapterError
from lora_spec.printing import has_unsafe_characters, printable
from lora_spec.strict_json import StrictJsonError, parse_strict

MAX_SHARDS = 512
_SHARD_NAME = r"adapter_model-(\d{1,6})-of-(\d{1,6})\.safetensors"


class WeightFiles:
    """The opened weight files and the entries of all their tensors."""

    def __init__(self) -> None:
        self.files: list[RegularFile] = []
        self.entries: list[TensorEntry] = []
        self._header_bytes = 0
        self._watched: list[RegularFile] = []

    def watch(self, file: RegularFile) -> None:
        """Take over another file of the adapter: it is closed with the weights, and must not change before."""
        self._watched.append(file)

    def open_one(self, path: Path) -> list[TensorEntry]:
        """Open one more file and return its entries; raises AdapterError with the code of what is wrong."""
        file = RegularFile(path)
        self.files.append(file)
        _refuse_foreign(file)
        entries = read_header(file, len(self.files) - 1, others=len(self.entries), other_bytes=self._header_bytes)
        self._header_bytes += header_bytes(file)
        self.entries += entries
        return entries

    def refuse_if_changed(self) -> None:
        """Raise AdapterError if any file changed since it was opened."""
        for file in (*self.files, *self._watched):
            file.refuse_if_changed()

    def __enter__(self) -> "WeightFiles":
        return self

    def __exit__(self, *_: object) -> None:
        for file in (*self.files, *self._watched):
            file.close()


def open_weights(folder: Folder, weights: WeightFiles, findings: Findings) -> set[str]:
    """Open the weights of a folder; record what is wrong; return the names of the files that were read."""
    if folder.holds(WEIGHTS_NAME):
        _open(folder.path / WEIGHTS_NAME, weights, findings)
        return {WEIGHTS_NAME}
    if not folder.holds(INDEX_NAME):
        return set()
    try:
        weight_map = _read_index(folder.path / INDEX_NAME, weights)
    except AdapterError as err:
        findings.add_error(err)
        return {INDEX_NAME}
    shards = sorted(set(weight_map.values()))
    _check_shard_names(folder, shards, findings)
    promised: dict[str, set[str]] = {}
    for name, shard in weight_map.items():
        promised.setdefault(shard, set()).add(name)
    for shard in shards:
        if folder.holds(shard):
            _open_shard(folder.path / shard, promised[shard], weights, findings)
        else:
            findings.add("E_SHARDS", shard, f"is named by {INDEX_NAME} but is not here; download it")
    _record_twins(weights, findings)
    return {INDEX_NAME, *shards}


def _refuse_foreign(file: RegularFile) -> None:
    head = bytes(file.read_at(0, min(512, file.size)))
    if looks_like_safetensors(head):
        return
    code, what = foreign.recognise_content(head)
    if code != "E_HEADER":
        raise AdapterError(f"{printable(file.name)}: {what}", codes=[code])


def _open(path: Path, weights: WeightFiles, findings: Findings) -> list[TensorEntry]:
    try:
        return weights.open_one(path)
    except AdapterError as err:
        findings.add_error(err)
        return []


def _open_shard(path: Path, promised: set[str], weights: WeightFiles, findings: Findings) -> None:
    had_errors = len(findings.codes)
    held = {entry.name for entry in _open(path, weights, findings)}
    if len(findings.codes) > had_errors and not held:
        return
    for name in sorted(promised - held):
        findings.add("E_SHARDS", name, f"is not in {printable(path.name)}, where {INDEX_NAME} puts it")
    for name in sorted(held - promised):
        findings.add("E_SHARDS", name, f"is in {printable(path.name)}, where {INDEX_NAME} does not put it")


def _record_twins(weights: WeightFiles, findings: Findings) -> None:
    first: dict[str, int] = {}
    for entry in weights.entries:
        if first.setdefault(entry.name, entry.file) != entry.file:
            findings.add("E_DUPLICATE_KEY", entry.name, "stands in two shards; export the adapter again")


def _read_index(path: Path, weights: WeightFiles) -> dict[str, str]:
    file = RegularFile(path)
    weights.watch(file)
    data = bytes(file.read_at(0, min(file.size, MAX_INDEX_BYTES)))
    try:
        if file.size > MAX_INDEX_BYTES:
            raise StrictJsonError(f"{file.size} bytes are more than any index needs")
        index = parse_strict(data, MAX_JSON_VALUES)
    except StrictJsonError as err:
        code, what = foreign.recognise_content(data[:512])
        codes = ["E_SHARDS", code] if code == "E_LFS_POINTER" else ["E_SHARDS"]
        codes += ["E_DUPLICATE_KEY"] if "twice" in str(err) else []
        reason = what if code == "E_LFS_POINTER" else f"is not strict JSON ({err}); download it again"
        raise AdapterError(f"{path.name}: {reason}", codes=codes) from err
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise AdapterError(
            f"{path.name}: has no weight_map from tensor names to file names; download it again", codes=["E_SHARDS"]
        )
    _refuse_paths(path.name, set(weight_map.values()))
    return weight_map


def _refuse_paths(index_name: str, shards: set[str]) -> None:
    for shard in sorted(shards):
        is_plain = shard not in ("", ".", "..") and not any(mark in shard for mark in "/\\:\0")
        if not is_plain or has_unsafe_characters(shard):
            raise AdapterError(
                f"{index_name}: weight_map names {printable(shard)}, which is not the plain name of a file in this "
                "folder; nothing outside the folder is read",
                codes=["E_UNSAFE_FILE"],
            )


def _check_shard_names(folder: Folder, shards: list[str], findings: Findings) -> None:
    if len(shards) > MAX_SHARDS:
        findings.add("E_SHARDS", INDEX_NAME, f"names {len(shards)} shards; at most {MAX_SHARDS} are read")
        del shards[MAX_SHARDS:]
    named = set(shards)
    for name in folder.names:
        if re.fullmatch(_SHARD_NAME, name) and name not in named:
            findings.add("E_SHARDS", name, f"is a shard that {INDEX_NAME} does not name; download the index again")
    numbered = [found for found in (re.fullmatch(_SHARD_NAME, shard) for shard in shards) if found]
    for total in {int(found.group(2)) for found in numbered}:
        if sum(int(found.group(2)) == total for found in numbered) < total:
            findings.add("E_SHARDS", INDEX_NAME, f"names fewer shards than the {total} that their names promise")
