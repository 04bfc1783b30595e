"""Observations on disk while they are made: one file each in the run's folder, and the merged file after every one.

A workflow deletes the output of a step before it repeats it; the run's folder is not an output and keeps the history.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from lora_spec.errors import ResultError
from lora_spec.measurement.composability.entries import check_cache_entry, check_cell_entry
from lora_spec.measurement.composability.observations import (
    Observations,
    merge,
    newest,
    read_observations,
    write_observations,
)
from lora_spec.results import read_json, write_json_atomically

_CHECKS = {"cells": check_cell_entry, "cache_semantics": check_cache_entry}


class ObservationStore:
    """What is known of cells and cache tests, from the merged file at ``output`` and from the folder beside it.

    Raises
    ------
    ResultError, EvidenceError
        What is there cannot be merged with: of another tier, version or form.
    """

    def __init__(self, output: Path, *, order: Collection[str], vllm_version: str, tier: str) -> None:
        self.folder = self.folder_of(output)
        self._output = output
        self._order = {name: place for place, name in enumerate(order)}
        self._tier = tier
        self._version = vllm_version
        self.provenance: Mapping[str, Any] = {}
        self.cells: dict[str, dict[str, Any]] = self._read("cells", "cell_id")
        self.cache: dict[str, dict[str, Any]] = self._read("cache_semantics", "test")
        if output.exists():
            old = read_observations(output, known_ids=self._order, vllm_version=vllm_version, tier=tier)
            self.cells = newest(self.cells, old.cells)
            self.cache = newest(self.cache, old.cache_semantics)

    @staticmethod
    def folder_of(output: Path) -> Path:
        """Return the run's folder, which lies beside its output."""
        return output.with_suffix("")

    def is_measured(self, name: str, digest: str) -> bool:
        """Return whether a cell, or a claim of a cache test, was observed with the same code and settings."""
        return (self.cells | self.cache).get(name, {}).get("digest") == digest

    def put_cell(self, entry: dict[str, Any]) -> None:
        """Keep a cell's observation and write everything."""
        self._put("cells", self.cells, entry["cell_id"], entry)

    def put_cache(self, entry: dict[str, Any]) -> None:
        """Keep what a cache test said of one claim and write everything."""
        self._put("cache_semantics", self.cache, entry["test"], entry)

    def write(self) -> None:
        """Write the merged file, cells in the order of the matrix."""
        cells = {name: self.cells[name] for name in sorted(self.cells, key=self._order.__getitem__)}
        write_observations(self._output, Observations(cells, self.cache, self.provenance), tier=self._tier)

    def _put(self, kind: str, known: dict[str, dict[str, Any]], name: str, entry: dict[str, Any]) -> None:
        known[name] = merge(entry, known.get(name))
        write_json_atomically(self.folder / "observed" / kind / f"{name}.json", known[name])
        self.write()

    def _read(self, kind: str, key: str) -> dict[str, dict[str, Any]]:
        """Return what the run's folder holds for this matrix and version; the rest is of an older config."""
        found = {}
        for path in sorted((self.folder / "observed" / kind).glob("*.json")):
            entry = read_json(path)
            if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
                raise ResultError(f"{path}: is no observation; remove the file")
            if entry.get("vllm_version") != self._version or (kind == "cells" and entry[key] not in self._order):
                continue
            _CHECKS[kind](entry, str(path))
            found[entry[key]] = entry
        return found
