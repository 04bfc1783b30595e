"""The ``measured_acceptance`` and ``step_time_cells`` results: their payloads, and reading them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from lora_spec.records import AcceptanceCounts, AcceptanceEstimate, Arm, Evidence, Interval
from lora_spec.results import Result
from lora_spec.step_time_cell import StepTimeCell
from lora_spec.typed import AdapterName, check_type, read_typed_result


class ArmCounts(TypedDict):
    """Counts of both arms on the same prompts."""

    base: AcceptanceCounts
    adapted: AcceptanceCounts


class EffectPayload(TypedDict):
    """The paired effect on one prompt set."""

    prompt_set: str
    acceptance_length_difference: Interval
    mismatch: Interval | None
    num_prompts: int
    counts: ArmCounts


class LivePayload(TypedDict):
    """Live counts beside those of replay."""

    prompt_set: str
    arm: Arm
    live: AcceptanceCounts
    replay: AcceptanceCounts


class SummaryPayload(TypedDict):
    """What :func:`lora_spec.measurement.summary.summarise_record` gives."""

    adapter: AdapterName
    adapter_sha256: str
    estimate: AcceptanceEstimate
    base_estimate: AcceptanceEstimate
    effects: list[EffectPayload]
    live: list[LivePayload]


class MeasuredPayload(TypedDict):
    """The measured acceptance of all adapters, in pool order."""

    adapters: list[SummaryPayload]


class StepTimePayload(TypedDict):
    """Timed cells and the engine that they were timed on."""

    cells: list[StepTimeCell]
    engine: dict[str, Any]


@dataclass(frozen=True)
class StepTimes:
    """A step-time result as read; ``cpu_features`` is None where the record does not say on what it was timed."""

    cells: tuple[StepTimeCell, ...]
    engine: dict[str, Any]
    evidence: Evidence
    cpu_features: tuple[str, ...] | None = None


def read_measured(path: Path, *, tier: str | None = None) -> Result:
    """Return the result with the summaries, as plain data; raises ResultError that names the file."""
    return read_typed_result(path, "measured_acceptance", MeasuredPayload, tier=tier)


def read_step_times(path: Path, *, tier: str | None = None) -> StepTimes:
    """Return the timed cells; raises ResultError that names the file."""
    result = read_typed_result(path, "step_time_cells", StepTimePayload, tier=tier)
    payload = check_type(StepTimePayload, result.payload, str(path))
    return StepTimes(tuple(payload["cells"]), payload["engine"], result.evidence, _cpu_features(result, path))


def _cpu_features(result: Result, path: Path) -> tuple[str, ...] | None:
    """Return what the record's processor could do; records from before this was noted do not say."""
    runtime = result.provenance.get("runtime", {})
    found = runtime.get("cpu_features") if isinstance(runtime, dict) else None
    return None if found is None else tuple(check_type(list[str], found, f"{path}: cpu_features"))
