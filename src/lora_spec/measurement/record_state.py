"""Records in a folder that survives a stopped run: written as each adapter is done, found again by their inputs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lora_spec.errors import ResultError
from lora_spec.measurement.lock import folder_lock
from lora_spec.measurement.progress import with_progress
from lora_spec.results import read_table_result, write_bytes_atomically

IsDone = Callable[[str, str], bool]


def keep_records(
    state_dir: Path,
    output_dir: Path,
    names: Sequence[str],
    *,
    kind: str,
    measure: Callable[[IsDone], Iterator[tuple[Any, dict[str, Any]]]],
    write: Callable[[Path, Any, dict[str, Any]], None],
    read: Callable[[Path], Any],
    doing: str,
) -> None:
    """Measure what ``state_dir`` does not hold yet, then put the records of all adapters into ``output_dir``.

    Parameters
    ----------
    kind
        Of the table results that the records are.
    measure
        Yields (record, payload) for every adapter of which the given function, asked with its name and the digest of
        its inputs, does not say that it is done.
    write, read
        Write one record with its payload to a path; read it back, which raises where it is not whole.
    doing
        What the progress bar says, such as ``adapters measured``.
    """
    found: list[str] = []
    asked: list[str] = []
    held = ExitStack()

    def is_done(name: str, inputs_sha256: str) -> bool:
        # Asked once every input is known to be sound: before, a refused run would leave a folder.
        if not asked:
            held.enter_context(folder_lock(state_dir))
        asked.append(name)
        is_there = _inputs_of(state_dir / f"{name}.parquet", kind) == inputs_sha256
        found.extend([name] * is_there)
        return is_there

    shown = {"total": len(names), "doing": doing, "unit": "adapter"}
    with held:
        for record, payload in with_progress(measure(is_done), **shown, num_before=lambda: len(found)):
            write(state_dir / f"{record.adapter}.parquet", record, payload)
    for name in names:
        source, path = state_dir / f"{name}.parquet", output_dir / f"{name}.parquet"
        read(source)
        if source != path:
            write_bytes_atomically(path, source.read_bytes())


def _inputs_of(path: Path, kind: str) -> str | None:
    """Return the digest of the inputs that a record was made from, None where there is no whole record."""
    try:
        result, _ = read_table_result(path, kind)
    except ResultError:
        return None
    return result.payload.get("inputs_sha256") if isinstance(result.payload, dict) else None
