"""Results that take long to compute, kept with a digest of all that they were made from, and used again where it holds.

What they were made from is told by contents, not by time or place. A library that changed is not seen here: who changes
how fits are made must make the kept ones again.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lora_spec.errors import ResultError
from lora_spec.provenance import sha256_of_file, sha256_of_json
from lora_spec.results import Result, read_json, write_all_atomically

Reader = Callable[[Path], Result]

KEY = "inputs_sha256"
"""Where the digest stands in a result's provenance."""
_DIGITS = 6


def inputs_sha256(files: Iterable[Path], settings: Any, *, computed: Iterable[Any] = ()) -> str:
    """Return the digest of some files by name and content, of settings, and of computed payloads.

    Parameters
    ----------
    computed
        Plain data that were computed from shipped files: their floats count to six digits, since the last ones differ
        from processor to processor.
    """
    digest = hashlib.sha256(sha256_of_json(settings).encode())
    for name, content in sorted((path.name, sha256_of_file(path)) for path in files):
        digest.update(f"{name} {content}\n".encode())
    for payload in computed:
        digest.update(sha256_of_json(_rounded(payload)).encode())
    return digest.hexdigest()


def take_kept(kept: Mapping[Path, Path], *, readers: Mapping[Path, Reader], tier: str, inputs: str) -> str | None:
    """Put kept results in their places where there is one for each and all were made from these inputs.

    Parameters
    ----------
    kept
        Place to kept file; nothing is kept where it is empty.
    readers
        Place to what reads and checks a result of its kind; each place is to be filled.

    Returns
    -------
    None where they are in place; else why they must be made again, for the user.

    Raises
    ------
    ResultError, EvidenceError
        A kept file is no JSON, or was made from these inputs and is no sound result of its kind.
    """
    if not kept:
        return "nothing is kept"
    if missing := sorted(place.name for place in readers if place not in kept):
        return f"{missing[0]} is not among the kept results"
    for place, path in kept.items():
        if _made_from(path) != (tier, inputs):
            return f"{path}: made from other records, features or settings than these"
        # Only now: what an older version wrote may be of another shape, and is not wanted anyway.
        readers[place](path)
    write_all_atomically({place: path.read_bytes() for place, path in kept.items()})
    return None


def check_can_be_kept(path: Path, reader: Reader, *, tier: str) -> bytes:
    """Return the bytes of a result that may be kept.

    Raises
    ------
    ResultError, EvidenceError
        It is of another kind or tier, not sound, is no evidence, or does not say what it was made from.
    """
    result = reader(path)
    if result.tier != tier or KEY not in result.provenance:
        raise ResultError(
            f"{path}: is of tier {result.tier!r}, or does not say what it was made from; run its step again for tier "
            f"{tier!r}"
        )
    return path.read_bytes()


def _made_from(path: Path) -> tuple[Any, Any]:
    """Return the tier and the digest that a file tells, whatever else it holds."""
    envelope = read_json(path)
    provenance = envelope.get("provenance") if isinstance(envelope, dict) else None
    return (envelope.get("tier"), provenance.get(KEY)) if isinstance(provenance, dict) else (None, None)


def _rounded(data: Any) -> Any:
    if isinstance(data, float):
        return f"{data:.{_DIGITS}g}"
    if isinstance(data, Mapping):
        return {key: _rounded(value) for key, value in data.items()}
    return [_rounded(item) for item in data] if isinstance(data, list | tuple) else data
