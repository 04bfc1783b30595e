"""The observations file: written cell by cell, merged with what was there, refused where it is not evidence.

``{"schema_version", "kind", "evidence", "tier", "provenance", "cells": [...], "cache_semantics": [...]}``; what lies
in ``cells`` says for itself that it was measured, and when.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lora_spec.errors import EvidenceError, ResultError
from lora_spec.measurement.composability.entries import check_cache_entry, check_cell_entry
from lora_spec.results import SCHEMA_VERSION, read_json, write_json_atomically

KIND = "phase0_observations"
_NEEDED = ("schema_version", "provenance", "cells")
_HISTORY_KEYS = ("timestamp", "status", "digest")


@dataclass(frozen=True)
class Observations:
    """Measured cells and cache tests by name, and the provenance of the run that wrote them last."""

    cells: Mapping[str, dict[str, Any]]
    cache_semantics: Mapping[str, dict[str, Any]]
    provenance: Mapping[str, Any]


def write_observations(path: Path, observations: Observations, *, tier: str) -> None:
    """Write the file whole, atomically."""
    write_json_atomically(
        path,
        {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "evidence": "measured",
            "tier": tier,
            "provenance": dict(observations.provenance),
            "cells": list(observations.cells.values()),
            "cache_semantics": list(observations.cache_semantics.values()),
        },
    )


def read_observations(path: Path, *, known_ids: Collection[str], vllm_version: str, tier: str) -> Observations:
    """Return the observations in a file, checked against the matrix they are to be laid over.

    Raises
    ------
    ResultError
        The file is missing, of another form, tier or vLLM version, or names cells that the matrix does not have.
    EvidenceError
        The file, or a cell in it, does not say that it was measured.
    """
    data = read_json(path)
    if not isinstance(data, dict) or not all(key in data for key in _NEEDED) or not isinstance(data["cells"], list):
        raise ResultError(f"{path}: not an observations file (needs {', '.join(_NEEDED)}); run phase0_vllm_runner")
    if data["schema_version"] != SCHEMA_VERSION or data.get("kind", KIND) != KIND:
        raise ResultError(
            f"{path}: holds {data.get('kind', 'no kind')!r} of schema {data['schema_version']!r}, needed is {KIND!r} "
            f"of schema {SCHEMA_VERSION!r}; check the path"
        )
    if data.get("tier", tier) != tier:
        raise ResultError(f"{path}: measured for tier {data['tier']}, the config is of tier {tier}; pass that tier's")
    cells, semantics = data["cells"], data.get("cache_semantics", [])
    if not isinstance(semantics, list) or not isinstance(data["provenance"], dict):
        raise ResultError(f"{path}: cache_semantics is no list or provenance no object; run phase0_vllm_runner")
    _check_evidence(path, [data, *cells, *semantics])
    _check_versions(path, [*cells, *semantics], vllm_version)
    for cell in cells:
        _check_known(path, cell, known_ids)
        check_cell_entry(cell, f"{path}: cell {cell['cell_id']}")
    for entry in semantics:
        check_cache_entry(entry, f"{path}: cache test {entry.get('test')!r}")
    return Observations(
        _by_name(path, cells, "cell_id"), _by_name(path, semantics, "test"), provenance=data["provenance"]
    )


def _by_name(path: Path, entries: list[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    found = {entry[key]: entry for entry in entries}
    if len(found) < len(entries):
        raise ResultError(f"{path}: a {key} stands twice; merge its observations with phase0_vllm_runner")
    return found


def _check_evidence(path: Path, parts: list[Any]) -> None:
    for part in parts:
        evidence = part.get("evidence", "measured" if part is parts[0] else None) if isinstance(part, dict) else None
        if evidence != "measured":
            name = part.get("cell_id") or part.get("test") or "the file" if isinstance(part, dict) else "an entry"
            raise EvidenceError(
                f"{path}: evidence of {name} is {evidence!r}, needed is 'measured'; run phase0_vllm_runner --execute"
            )


def _check_known(path: Path, cell: Mapping[str, Any], known_ids: Collection[str]) -> None:
    name = cell.get("cell_id")
    if not isinstance(name, str) or name not in known_ids:
        raise ResultError(
            f"{path}: cell {name!r} is not in the matrix of this config; pass the config it was measured with, or "
            "measure again"
        )


def _check_versions(path: Path, entries: list[dict[str, Any]], vllm_version: str) -> None:
    found = sorted({str(entry.get("vllm_version")) for entry in entries} - {vllm_version})
    if found:
        raise ResultError(
            f"{path}: measured with vLLM {', '.join(found)}, the config is for {vllm_version}; measure again, or "
            "change vllm_version in the config"
        )


def merge(new: dict[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a new observation that keeps time, status and digest of those it replaces, newest first."""
    if old is None:
        return {**new, "history": []}
    return {**new, "history": [{key: old.get(key) for key in _HISTORY_KEYS}, *old.get("history", ())]}


def newest(one: Mapping[str, dict[str, Any]], other: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the union of two sets of observations; of the same name, the later."""
    union = dict(one)
    for name, entry in other.items():
        if name not in union or _time_of(entry) > _time_of(union[name]):
            union[name] = entry
    return union


def _time_of(entry: Mapping[str, Any]) -> datetime:
    # Not compared as texts: one moment is written in many ways, by offset or Z.
    return datetime.fromisoformat(entry["timestamp"])
