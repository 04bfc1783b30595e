"""Prompt records as a Parquet table with declared columns, its circumstances in the file's metadata.

The role of the prompts is part of every row: records of one role are never read as another's.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from lora_spec.errors import MeasurementError, ResultError
from lora_spec.joins import check_tier
from lora_spec.measurement.record_checks import check_record
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord, Role
from lora_spec.results import Result, read_table_result, write_table_result
from lora_spec.typed import AdapterName, check_type

if TYPE_CHECKING:
    import pyarrow as pa

KIND = "acceptance_records"
_NAME_KEYS = ("adapter", "adapter_sha256")
_COUNT_COLUMNS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_accepted_tokens_per_pos")
_TYPES = {
    "adapter": "string",
    "arm": "string",
    "prompt_set": "string",
    "domain": "string",
    "role": "string",
    "prompt_id": "string",
    "source": "string",
    "weights": "string",
    "drafter": "string",
    "context": "string",
    "num_speculative_tokens": "int32",
    "num_steps": "int32",
    "num_drafts": "int32",
    "num_draft_tokens": "int32",
    "num_accepted_tokens": "int32",
    "num_accepted_tokens_per_pos": "int32 list",
    "num_prompt_tokens": "int32",
    "num_output_tokens": "int32",
    "output_token_ids": "int32 list",
    "finish_reason": "string",
    "e2el_ms": "float64",
}
_NULLABLE = {"adapter", "num_steps", "e2el_ms", "output_token_ids"}


class RecordNames(TypedDict):
    """What of the payload says which weights the records are of."""

    adapter: AdapterName
    adapter_sha256: str


def declared_schema() -> "pa.Schema":
    """Return the columns of the table, in order, with their types."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "int32": pa.int32(), "float64": pa.float64(), "int32 list": pa.list_(pa.int32())}
    return pa.schema([pa.field(name, kinds[kind], nullable=name in _NULLABLE) for name, kind in _TYPES.items()])


def write_records(path: Path, measured: AcceptanceRecord, *, payload: dict[str, Any], **circumstances: Any) -> None:
    """Write one adapter's records; ``circumstances`` are those of :func:`~lora_spec.results.write_table_result`.

    The text stands in the first record of each (arm, prompt, source, weights) only: all others share it.
    """
    import pyarrow as pa

    rows = [_row(record) for record in measured.records]
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        key = _text_key(row)
        if key in seen:
            row["output_token_ids"] = None
        seen.add(key)
    table = pa.Table.from_pylist(rows, schema=declared_schema())
    names = {"adapter": measured.adapter, "adapter_sha256": measured.adapter_sha256}
    write_table_result(path, kind=KIND, table=table, payload=payload | names, **circumstances)


def read_records(path: Path, *, role: Role = "evaluation", tier: str | None = None) -> AcceptanceRecord:
    """Return the records of one adapter; raises like :func:`read_record_file`."""
    return read_record_file(path, role=role, tier=tier)[1]


def read_record_file(
    path: Path, *, role: Role = "evaluation", tier: str | None = None
) -> tuple[Result, AcceptanceRecord]:
    """Return the records of one adapter beside the result that holds them.

    Parameters
    ----------
    tier
        The tier that the record must be of; None takes any.

    Raises
    ------
    ResultError
        The record is of another tier, a row was taken from prompts of another role or is not of this adapter, or the
        columns are not the declared ones.
    """
    result, table = read_table_result(path, KIND)
    if tier is not None:
        check_tier(result, tier)
    if not table.schema.equals(declared_schema()):
        raise ResultError(f"{path}: its columns are not those of this version; measure again")
    rows = table.to_pylist()
    payload = result.payload
    names = {key: payload[key] for key in _NAME_KEYS if key in payload} if isinstance(payload, dict) else payload
    check_type(RecordNames, names, str(path))
    _check_whole(path, table)
    if others := sorted({row["role"] for row in rows} - {role}):
        raise ResultError(
            f"{path}: holds records of role {others[0]!r} where {role!r} is asked for; prompts of one role must not "
            "serve another: pass the file measured on the right prompts"
        )
    try:
        record = _rebuilt(result, rows)
        check_record(record)
    except (MeasurementError, ResultError) as err:
        raise ResultError(f"{path}: {err}") from err
    return result, record


def _rebuilt(result: Result, rows: Sequence[dict[str, Any]]) -> AcceptanceRecord:
    texts = {_text_key(row): row["output_token_ids"] for row in rows if row["output_token_ids"] is not None}
    missing = next((row for row in rows if _text_key(row) not in texts), None)
    if missing is not None:
        raise ResultError(f"prompt {missing['prompt_id']}, {missing['arm']} arm: its text is missing; measure again")
    records = tuple(_record(row, texts[_text_key(row)]) for row in rows)
    return AcceptanceRecord(result.payload["adapter"], result.payload["adapter_sha256"], records)


def _check_whole(path: Path, table: "pa.Table") -> None:
    if not table.num_rows:
        raise ResultError(f"{path}: holds no records; measure again")
    # Parquet keeps what a writer said, not that it kept its word: a column without gaps may hold some.
    gaps = [name for name in table.column_names if name not in _NULLABLE and table[name].null_count]
    if gaps:
        raise ResultError(f"{path}: column {gaps[0]} has gaps; measure again")


def _text_key(row: dict[str, Any]) -> tuple[Any, ...]:
    # Replay on the base's text has that text; every other record has its own arm's.
    arm = "base" if row["context"] == "base" else row["arm"]
    weights = None if arm == "base" else row["weights"]
    return arm, row["prompt_set"], row["prompt_id"], row["source"], weights


def _row(record: PromptRecord) -> dict[str, Any]:
    row = asdict(record)
    counts = row.pop("counts")
    row |= {name: counts[name] for name in _COUNT_COLUMNS}
    row["num_speculative_tokens"] = record.counts.num_speculative_tokens
    row["num_output_tokens"] = len(record.output_token_ids)
    return row


def _record(told_row: dict[str, Any], output_token_ids: Sequence[int]) -> PromptRecord:
    row = dict(told_row)
    counts = AcceptanceCounts.from_dict({name: row.pop(name) for name in _COUNT_COLUMNS})
    derived = {"num_speculative_tokens": counts.num_speculative_tokens, "num_output_tokens": len(output_token_ids)}
    for name, value in derived.items():
        if (told := row.pop(name)) != value:
            raise ResultError(f"prompt {row['prompt_id']}: {name} says {told}, the row holds {value}; measure again")
    return PromptRecord(**{**row, "counts": counts, "output_token_ids": tuple(output_token_ids)})
