"""A live run as one file: a row per request in a Parquet table, everything else in its metadata."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from lora_spec.config.fields import Name, PositiveCount
from lora_spec.config.traffic_live import LivePolicy
from lora_spec.errors import ResultError
from lora_spec.joins import check_tier
from lora_spec.records import AcceptanceCounts
from lora_spec.results import Result, naming, read_table_result, write_table_result
from lora_spec.stress.live import TrialRecord
from lora_spec.stress.live_plan import PlannedTrial
from lora_spec.stress.request_record import RequestRecord
from lora_spec.typed import check_type

if TYPE_CHECKING:
    import pyarrow as pa

KIND = "live_stress"
_TYPES = {
    "trial": "string",
    "index": "int32",
    "adapter": "string",
    "num_prompt_tokens": "int32",
    "num_output_tokens": "int32",
    "due_s": "float64",
    "sent_s": "float64",
    "first_token_s": "float64",
    "last_token_s": "float64",
    "error": "string",
}
_NULLABLE = {"first_token_s", "last_token_s", "error"}


class LiveAdapter(TypedDict):
    """An adapter in traffic."""

    name: Name
    domain: str
    action: str
    lora_rank: int
    adapter_sha256: str


class LiveServiceLevel(TypedDict):
    """What a request must meet to count as good."""

    max_ttft_ms: float
    max_tpot_ms: float


class LiveTraffic(TypedDict):
    """What of the traffic holds for all trials."""

    duration_s: float
    warmup_s: float
    drain_s: float
    output_tokens: int
    service_level: LiveServiceLevel


class LiveTrialPayload(TypedDict):
    """One trial; ``policy_sha256`` names its entry of ``policies``."""

    trial: str
    pattern: str
    cache_mode: str
    request_rate_req_s: float
    policy: LivePolicy
    seed: int
    candidate: str
    policy_sha256: str
    counts: dict[str, AcceptanceCounts]
    num_changes: dict[str, int]
    num_adapter_loads: dict[str, int]
    wall_s: float
    generator_cores: float
    server_cores: float
    other_cores: float
    load_before: float
    load_after: float


class LivePayload(TypedDict):
    """A live run; trials in the order of the plan, ``slots`` by cache mode."""

    setup: str
    engine: dict[str, Any]
    adapters: list[LiveAdapter]
    traffic: LiveTraffic
    slots: dict[str, int]
    policies: dict[str, dict[str, Any]]
    trials: list[LiveTrialPayload]


@dataclass(frozen=True)
class LiveStress:
    """A live run as read; ``records`` are by trial."""

    result: Result
    payload: LivePayload
    records: Mapping[str, tuple[RequestRecord, ...]]


def declared_schema() -> "pa.Schema":
    """Return the columns of the table, in order, with their types."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "int32": pa.int32(), "float64": pa.float64()}
    return pa.schema([pa.field(name, kinds[kind], nullable=name in _NULLABLE) for name, kind in _TYPES.items()])


def write_live(
    path: Path, done: Sequence[tuple[PlannedTrial, TrialRecord]], *, payload: Mapping[str, Any], **circumstances: Any
) -> None:
    """Write a finished run; ``payload`` is what :class:`LivePayload` has beside policies and trials."""
    import pyarrow as pa

    rows = [{"trial": record.name, **request.to_dict()} for _, record in done for request in record.records]
    told = {
        **payload,
        "policies": {planned.policy.sha256: dict(planned.policy.payload) for planned, _ in done},
        "trials": [_trial_payload(planned, record) for planned, record in done],
    }
    table = pa.Table.from_pylist(rows, schema=declared_schema())
    write_table_result(path, kind=KIND, evidence="measured", payload=told, table=table, **circumstances)


def _trial_payload(planned: PlannedTrial, record: TrialRecord) -> dict[str, Any]:
    place, kept = planned.place, record.to_dict()
    for key in ("name", "inputs_sha256", "records", "failure"):
        del kept[key]
    return {
        "trial": record.name,
        **vars(place),
        "candidate": planned.policy.label,
        "policy_sha256": planned.policy.sha256,
        **kept,
    }


def read_live(path: Path, *, tier: str | None = None) -> LiveStress:
    """Return a live run.

    Raises
    ------
    ResultError
        It is of another tier or shape, or a trial has no requests.
    """
    result, table = read_table_result(path, KIND)
    if tier is not None:
        check_tier(result, tier)
    if not table.schema.equals(declared_schema()):
        raise ResultError(f"{path}: its columns are not those of this version; measure again")
    payload: LivePayload = check_type(LivePayload, result.payload, str(path))
    with naming(path):
        _check_payload(payload)
        records = _records(table, payload)
    return LiveStress(result, payload, records)


def _check_payload(payload: LivePayload) -> None:
    """Refuse a run without trials, one trial twice, and what a trial names and the run does not hold."""
    trials = [trial["trial"] for trial in payload["trials"]]
    if not trials or len(set(trials)) < len(trials):
        raise ResultError("no trial, or one that stands twice; measure again")
    for trial in payload["trials"]:
        if trial["cache_mode"] not in payload["slots"] or trial["policy_sha256"] not in payload["policies"]:
            raise ResultError(f"trial {trial['trial']!r}: its slots or its policy are missing; measure again")
    for key in ("max_num_seqs", "max_num_batched_tokens", "num_speculative_tokens"):
        check_type(PositiveCount, payload["engine"].get(key), f"engine: {key}")


def _records(table: "pa.Table", payload: LivePayload) -> dict[str, tuple[RequestRecord, ...]]:
    adapters = {adapter["name"] for adapter in payload["adapters"]}
    records: dict[str, list[RequestRecord]] = {trial["trial"]: [] for trial in payload["trials"]}
    for row in table.to_pylist():
        trial, record = row.pop("trial"), RequestRecord.from_dict(row)
        if trial not in records or record.adapter not in adapters or not record.is_possible:
            raise ResultError(
                f"request {record.index} of trial {trial!r}: of a trial or an adapter that is not in the run, or with "
                "times that cannot be; measure again"
            )
        records[trial].append(record)
    if empty := [trial for trial, found in records.items() if not found]:
        raise ResultError(f"trial {empty[0]!r} has no requests; measure again")
    return {trial: tuple(found) for trial, found in records.items()}
