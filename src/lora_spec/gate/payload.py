"""The ``effect_gate`` result and the verdict's JSON: what they hold, and reading them."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from lora_spec.errors import EvidenceError, ResultError
from lora_spec.evaluation.selective import Certificate, RiskPoint
from lora_spec.gate.certification import AbstentionRule
from lora_spec.gate.effect_gate import Answer, EffectRule
from lora_spec.gate.verdict_payload import LoadVerdict, Open, ReasonPayload, check_depths
from lora_spec.records import Action, DrafterAction, Evidence, Interval, Mode
from lora_spec.results import Result, naming, read_json
from lora_spec.typed import AdapterName, check_type, read_typed_result


class EffectGatePayload(TypedDict):
    """What :func:`lora_spec.gate.effect_report.effect_report` gives."""

    answer: Answer
    rule: EffectRule
    accepted_loss: Interval
    goodput_loss: Interval
    cost_context: dict[str, Any]
    strata: list[dict[str, Any]]
    adapters: list[dict[str, Any]]
    sentence: str
    variance: dict[str, Any]
    order: list[dict[str, Any]]
    live: list[dict[str, Any]]


class CertifiedContext(TypedDict):
    """What a certificate holds for; see :func:`lora_spec.gate.commitment.certified_context`."""

    mode: Mode
    predictor: str
    training_sha256: str
    target_model: str
    draft_model: str
    batch_size: float
    rivals: list[int]


class Direction(TypedDict):
    """One half of the sources chose a limit, the other certified it."""

    chosen_on: list[str]
    certified_on: list[str]
    certificate: Certificate


class JudgedPayload(TypedDict):
    """One judged adapter; no doubt: never committed."""

    adapter: AdapterName
    source: str
    doubt: float | None
    is_wrong: bool


class CertificationPayload(TypedDict):
    """What :func:`lora_spec.gate.certification.certify_predictions` gives."""

    rule: AbstentionRule
    threshold: float | None
    directions: tuple[Direction, Direction]
    together: dict[Literal["adapters", "sources"], dict[Literal["num_committed", "num_wrong"], int]]
    curve: list[RiskPoint]
    least_certifiable: float | None
    adapters: list[JudgedPayload]
    context: CertifiedContext


class SpeedupContext(Open):
    """What the speedup holds for."""

    by_load: list[LoadVerdict]


class Speedup(TypedDict):
    """The speedup of the chosen depth with its circumstances."""

    estimate: float
    lower: float
    upper: float
    level: float
    context: SpeedupContext


class VerdictAdapter(Open):
    """The adapter that a verdict is about."""

    name: AdapterName


class VerdictProvenance(Open):
    """What tells where a verdict of a study comes from."""

    tier: str
    evidence: str


class VerdictPayload(TypedDict):
    """What :meth:`lora_spec.records.Verdict.to_dict` gives: section 6 of the design."""

    adapter: VerdictAdapter
    mode: Mode
    action: Action
    num_speculative_tokens: int | None
    drafter: DrafterAction
    acceptance_length: Interval | None
    speedup: Speedup | None
    reasons: list[ReasonPayload]
    correction: str | None
    predictor_sha256: str | None
    provenance: VerdictProvenance
    schema_version: Literal["1"]


def read_effect_gate(path: Path) -> dict[str, Any]:
    """Return the answer of phase 1 with its numbers; raises ResultError that names the file."""
    return read_typed_result(path, "effect_gate", EffectGatePayload).payload


def read_certification(
    path: Path, *, evidence: Collection[Evidence] = ("measured",), tier: str | None = None
) -> Result:
    """Return the certified limits of the doubt; raises ResultError that names the file."""
    return read_typed_result(path, "certification", CertificationPayload, evidence=evidence, tier=tier)


def read_verdict(path: Path, *, tier: str) -> dict[str, Any]:
    """Return a whole verdict that rests on measurements of a tier.

    Raises
    ------
    ResultError
        It is no verdict, not whole, or of another tier; the message names the file.
    EvidenceError
        It does not rest on measurements.
    """
    verdict = read_json(path)
    check_type(VerdictPayload, verdict, str(path))
    provenance = verdict["provenance"]
    if provenance["evidence"] != "measured":
        raise EvidenceError(f"{path}: evidence is {provenance['evidence']!r}, needed is measured; run decide again")
    if provenance["tier"] != tier:
        raise ResultError(f"{path}: verdict of tier {provenance['tier']!r} where {tier!r} is joined; run decide again")
    check_depths(verdict, str(path), remedy="run decide again")
    speedup = verdict["speedup"]
    if speedup is not None:
        with naming(path):
            Interval(speedup["estimate"], speedup["lower"], speedup["upper"], speedup["level"])
    return verdict
