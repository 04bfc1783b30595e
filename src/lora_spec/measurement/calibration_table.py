"""A calibration record as a Parquet table, one row per prompt, with declared columns and its costs in the metadata."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from lora_spec.calibration_record import SIGNALS, CalibrationPrompt, CalibrationRecord, PartCost
from lora_spec.errors import MeasurementError, ResultError
from lora_spec.joins import check_tier
from lora_spec.measurement.record_checks import check_engine
from lora_spec.records import AcceptanceCounts, Role
from lora_spec.results import Result, read_table_result, write_table_result
from lora_spec.typed import AdapterName, check_type

if TYPE_CHECKING:
    import pyarrow as pa

KIND = "calibration_probe"
_ROLE: Role = "calibration"
_COUNTS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens_per_pos")


class ProbeCircumstances(TypedDict):
    """What of the payload belongs to the record itself."""

    adapter: AdapterName
    adapter_sha256: str
    domain: str
    role: Role
    cost_by_part: dict[str, PartCost]
    other_cores: float


def declared_schema() -> "pa.Schema":
    """Return the columns of the table, in order, with their types; a list has one entry per output token or depth."""
    import pyarrow as pa

    kinds = {
        "prompt_id": pa.string(),
        "num_prompt_tokens": pa.int32(),
        "output_token_ids": pa.list_(pa.int32()),
        "finish_reason": pa.string(),
        **{name: pa.list_(pa.float32()) for name in SIGNALS},
        "num_drafts": pa.list_(pa.int32()),
        "num_draft_tokens": pa.list_(pa.int32()),
        "num_accepted_tokens_per_pos": pa.list_(pa.list_(pa.int32())),
    }
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


def write_calibration(path: Path, record: CalibrationRecord, *, payload: dict[str, Any], **circumstances: Any) -> None:
    """Write a record; ``circumstances`` are those of :func:`~lora_spec.results.write_table_result`.

    Signals are stored in float32, in which they were computed.
    """
    import pyarrow as pa

    table = pa.Table.from_pylist([_row(prompt) for prompt in record.prompts], schema=declared_schema())
    own = {
        "adapter": record.adapter,
        "adapter_sha256": record.adapter_sha256,
        "domain": record.domain,
        "role": record.role,
        "cost_by_part": {
            part: {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s} for part, cost in record.cost_by_part.items()
        },
        "other_cores": record.other_cores,
    }
    write_table_result(path, kind=KIND, table=table, payload=payload | own, **circumstances)


def read_calibration(
    path: Path, *, tier: str | None = None, pair: Mapping[str, str] | None = None
) -> CalibrationRecord:
    """Return the record of one adapter.

    Parameters
    ----------
    tier
        The tier that it must be of; None takes any.
    pair
        ``target`` and ``drafter`` by name that must have been probed; None takes any. Older files lack the names, which
        are then not checked.

    Raises
    ------
    ResultError
        It is of another tier or pair, was taken from prompts of another role, or contradicts itself.
    """
    result, table = read_table_result(path, KIND)
    if tier is not None:
        check_tier(result, tier)
    if not table.schema.equals(declared_schema()):
        raise ResultError(f"{path}: its columns are not those of this version; probe the adapter again")
    told = _circumstances(result)
    if pair is not None:
        engine = result.payload.get("engine")
        check_engine(engine if isinstance(engine, dict) else {}, pair, what=str(path))
    if told["role"] != _ROLE:
        raise ResultError(
            f"{path}: was taken from prompts of role {told['role']!r}; features may see calibration prompts alone: "
            "pass the file probed on these"
        )
    try:
        prompts = tuple(_prompt(row) for row in table.to_pylist())
        costs = {part: PartCost(**cost) for part, cost in told["cost_by_part"].items()}
        return CalibrationRecord(**{**told, "cost_by_part": costs}, prompts=prompts)
    except (MeasurementError, TypeError, ValueError) as err:
        raise ResultError(f"{path}: {err}") from err


def _circumstances(result: Result) -> dict[str, Any]:
    keys = ProbeCircumstances.__annotations__
    payload = result.payload if isinstance(result.payload, dict) else {}
    told = {key: payload[key] for key in keys if key in payload}
    check_type(ProbeCircumstances, told, str(result.path))
    return told


def _row(prompt: CalibrationPrompt) -> dict[str, Any]:
    return {
        "prompt_id": prompt.prompt_id,
        "num_prompt_tokens": prompt.num_prompt_tokens,
        "output_token_ids": prompt.output_token_ids,
        "finish_reason": prompt.finish_reason,
        **prompt.signals,
        **{name: [getattr(counts, name) for counts in prompt.counts_by_depth] for name in _COUNTS},
    }


def _prompt(row: dict[str, Any]) -> CalibrationPrompt:
    counts = zip(*(row.pop(name) for name in _COUNTS), strict=True)
    signals = {name: tuple(row.pop(name)) for name in SIGNALS}
    by_depth = tuple(
        AcceptanceCounts(drafts, drafted, sum(per_pos), tuple(per_pos)) for drafts, drafted, per_pos in counts
    )
    return CalibrationPrompt(
        **{**row, "output_token_ids": tuple(row["output_token_ids"])}, signals=signals, counts_by_depth=by_depth
    )
