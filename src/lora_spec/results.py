"""Result files: one JSON envelope for all, written atomically, refused when of the wrong evidence class."""

import json
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lora_spec.errors import EvidenceError, LoraSpecError, ResultError
from lora_spec.records import Evidence
from lora_spec.regular_file import kind_if_irregular, read_regular_file
from lora_spec.strict_json import StrictJsonError, parse_own

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = "1"
MAX_JSON_BYTES = 64 << 20
MAX_TABLE_BYTES = 256 << 20
_ENVELOPE_KEYS = {"schema_version", "kind", "evidence", "tier", "provenance", "payload"}
_TABLE_KEY = b"lora_spec"


@dataclass(frozen=True)
class Result:
    """A result as read: its payload and the circumstances that give it meaning."""

    kind: str
    evidence: Evidence
    tier: str
    provenance: dict[str, Any]
    payload: Any
    path: Path


@contextmanager
def naming(*paths: Path) -> Iterator[None]:
    """Put the files' names before the message of an error that their contents cause, and call it a ResultError.

    For readers alone: whatever is wrong inside the block is wrong in the files.
    """
    try:
        yield
    except LoraSpecError as err:
        rest = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        names = ", ".join(map(str, paths[:3])) + rest
        if isinstance(err, ResultError) and str(err).startswith(names):
            raise
        raise ResultError(f"{names}: {err}") from err


def refuse_irregular_target(path: Path) -> None:
    """Refuse to replace what is no file, and a path without a name.

    Raises
    ------
    ResultError
        The path names a folder, FIFO or device, or nothing at all.
    """
    if not path.name or path.name == "..":
        raise ResultError(f"'{path}': is no name of a file; say where the output goes")
    if kind := kind_if_irregular(path):
        raise ResultError(f"{path}: is {kind}, which an output must not replace; name a file")


def write_bytes_atomically(path: Path, data: bytes) -> None:
    """Write a file so that no reader ever sees a part of it: temporary neighbour, fsync, rename.

    Raises
    ------
    ResultError
        Something that is no regular file stands there.
    """
    write_all_atomically({path: data})


def write_all_atomically(files: Mapping[Path, bytes]) -> None:
    """Write several files, each atomically and in their order, once all lie whole beside their places.

    A target that is no file, a folder that cannot be made or a full disk is noticed before any file is replaced.
    """
    for path in files:
        refuse_irregular_target(path)
    parts: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            parts[path] = _staged(path, data)
        for path, part in parts.items():
            part.replace(path)
    except BaseException:
        for part in parts.values():
            part.unlink(missing_ok=True)
        raise


def _staged(path: Path, data: bytes) -> Path:
    """Write a file's neighbour that only needs to be renamed, and return it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.chmod(0o644)
    except BaseException as err:
        part.unlink(missing_ok=True)
        if isinstance(err, OSError) and err.errno is not None and err.filename is None:
            # The system names no file where a write fails.
            err.filename = str(path)
        raise
    return part


def write_json_atomically(path: Path, data: Any) -> None:
    """Write JSON (strict: no NaN) with a final line end, atomically."""
    write_bytes_atomically(path, json_bytes(data))


def json_bytes(data: Any) -> bytes:
    """Return JSON (strict: no NaN) with a final line end, as all results are written."""
    return (json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()


def write_result(
    path: Path, *, kind: str, evidence: Evidence, tier: str, provenance: dict[str, Any], payload: Any
) -> None:
    """Write one experiment's result with its provenance."""
    data = result_bytes(kind=kind, evidence=evidence, tier=tier, provenance=provenance, payload=payload)
    write_bytes_atomically(path, data)


def result_bytes(*, kind: str, evidence: Evidence, tier: str, provenance: dict[str, Any], payload: Any) -> bytes:
    """Return a result as its file holds it, for writers of several files at once."""
    return json_bytes(_envelope(kind, evidence, tier, provenance, payload))


def _envelope(kind: str, evidence: Evidence, tier: str, provenance: dict[str, Any], payload: Any) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "evidence": evidence,
        "tier": tier,
        "provenance": provenance,
        "payload": payload,
    }


def read_json(path: Path) -> Any:
    """Return the strict JSON in a regular file of at most 64 MiB.

    Raises
    ------
    ResultError
        The file is missing, no file, too large or not JSON.
    """
    try:
        return parse_own(_bytes_of(path, MAX_JSON_BYTES))
    except StrictJsonError as err:
        raise ResultError(f"{path}: not a readable result ({err}); delete it and run its step again") from err


def _bytes_of(path: Path, max_bytes: int) -> bytes:
    try:
        return read_regular_file(path, max_bytes)
    except FileNotFoundError as err:
        raise ResultError(f"{path}: no such result; run the workflow step that writes it") from err
    except (OSError, ValueError) as err:  # a NUL in a path is a ValueError
        reason = getattr(err, "strerror", None) or err
        raise ResultError(f"{path}: not a readable result ({reason}); check the path") from err


def write_table_result(
    path: Path,
    *,
    kind: str,
    evidence: Evidence,
    tier: str,
    provenance: dict[str, Any],
    payload: Any,
    table: "pa.Table",
) -> None:
    """Write a table as Parquet with the envelope of a result in its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    envelope = _envelope(kind, evidence, tier, provenance, payload)
    text = json.dumps(envelope, sort_keys=True, allow_nan=False).encode()
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({_TABLE_KEY: text}), sink, compression="zstd")
    write_bytes_atomically(path, sink.getvalue().to_pybytes())


def read_table_result(
    path: Path, kind: str, *, evidence: Collection[Evidence] = ("measured",)
) -> tuple[Result, "pa.Table"]:
    """Return a result that holds a table; the table comes without metadata.

    Raises
    ------
    ResultError, EvidenceError
        As :func:`read_result`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = _bytes_of(path, MAX_TABLE_BYTES)
    try:
        table = pq.read_table(pa.BufferReader(data))
        envelope = parse_own((table.schema.metadata or {})[_TABLE_KEY])
    except (OSError, ValueError, KeyError, pa.ArrowException) as err:
        reason = " ".join(str(err).split())
        raise ResultError(f"{path}: not a readable table result ({reason}); delete it and run its step again") from err
    return _checked(path, envelope, kind, evidence), table.replace_schema_metadata(None)


def read_result(path: Path, kind: str, *, evidence: Collection[Evidence] = ("measured",)) -> Result:
    """Read a result of one kind.

    Raises
    ------
    ResultError
        The file is missing, truncated, or of another kind or schema.
    EvidenceError
        Its evidence class is not among ``evidence``: synthetic and plan-only data never pass as measured.
    """
    return _checked(path, read_json(path), kind, evidence)


def _checked(path: Path, envelope: Any, kind: str, evidence: Collection[Evidence]) -> Result:
    if not isinstance(envelope, dict) or set(envelope) != _ENVELOPE_KEYS:
        raise ResultError(f"{path}: not a result envelope (needs exactly {', '.join(sorted(_ENVELOPE_KEYS))})")
    if envelope["schema_version"] != SCHEMA_VERSION:
        raise ResultError(f"{path}: schema {envelope['schema_version']!r}, this version reads {SCHEMA_VERSION!r}")
    if envelope["kind"] != kind:
        raise ResultError(f"{path}: holds {envelope['kind']!r} where {kind!r} is expected; check the path")
    if envelope["evidence"] not in evidence:
        raise EvidenceError(
            f"{path}: evidence is {envelope['evidence']!r}, needed is {' or '.join(evidence)}; "
            "run the measurement that makes it"
        )
    if not isinstance(envelope["tier"], str) or not isinstance(envelope["provenance"], dict):
        raise ResultError(f"{path}: tier is no text or provenance no object; delete it and run its step again")
    return Result(path=path, **{key: envelope[key] for key in _ENVELOPE_KEYS - {"schema_version"}})
