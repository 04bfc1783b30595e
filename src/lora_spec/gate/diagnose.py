"""An adapter folder in, a verdict out: inspect, extract, predict, weigh, decide. No torch, no engine, no network."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_spec.adapter import Inspection, inspect_adapter
from lora_spec.calibration_record import CalibrationRecord
from lora_spec.cost_model import CostModel
from lora_spec.errors import AdapterError
from lora_spec.features import AdapterFeatures, BaseProfile, extract_features
from lora_spec.features.calibration import with_calibration
from lora_spec.gate.applicability import applicability_reasons, check_probe, check_profile, check_same_pair
from lora_spec.gate.commitment import check_certified, commitment_of
from lora_spec.gate.decide import abstain, decide
from lora_spec.gate.settings import GateSettings
from lora_spec.predictors import base_estimate, column_set_of, is_training_adapter, predict, zero_update_estimate
from lora_spec.predictors.exported import check_exported
from lora_spec.provenance import sha256_of_json
from lora_spec.records import AcceptanceEstimate, Verdict
from lora_spec.results import Result

Reason = tuple[str, str]


@dataclass(frozen=True)
class Refusal:
    """The folder holds no usable adapter: ``inspection`` is the JSON object that ``inspect`` gives for it."""

    inspection: dict[str, Any]


def diagnose(
    adapter_dir: Path,
    predictor: Result,
    cost_model: Result | None,
    *,
    certificate: Result | None = None,
    settings: GateSettings | None = None,
    traffic_share: float | None = None,
    profile: BaseProfile | None = None,
    probe: CalibrationRecord | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Verdict | Refusal:
    """Return the verdict on one adapter, or the inspection that refuses it.

    Parameters
    ----------
    predictor, cost_model
        Results of these kinds; without a cost model the verdict tells the acceptance and abstains.
    certificate
        A ``certification`` result made with this predictor and gate: its limit of the doubt decides whether the verdict
        is committed. None leaves that to the limits on the intervals.
    settings
        None takes the standing depth of the predictor and all depths that it knows, with default tolerances.
    profile
        The base's profile; a predictor of mode ``checkpoint_base`` needs the one that it was fitted with.
    probe
        The adapter's calibration record; a predictor of mode ``checkpoint_calib`` needs it.

    Raises
    ------
    PredictorError, ResultError, ConfigError
        The predictor, the cost model or the settings cannot be used together, such as where they are of other models.
    """
    exported = predictor.payload
    check_exported(exported)
    check_profile(exported, profile)
    check_probe(exported, probe)
    model = None if cost_model is None else CostModel.from_dict(cost_model.payload)
    if model is not None:
        check_same_pair(exported, model)
    settings = settings or default_settings(exported)
    if certificate is not None:
        check_certified(certificate.payload, exported, settings)
    smoke = _smoke_reasons(predictor, cost_model, certificate)
    common = {"predictor_sha256": sha256_of_json(exported), "provenance": provenance}
    try:
        features = extract_features(adapter_dir, profile=profile)
    except AdapterError:
        inspection = inspect_adapter(adapter_dir)
        if inspection.status != "abstain":
            return Refusal(inspection.to_dict())
        doubts, remarks = _inspection_reasons(inspection)
        adapter = {"name": adapter_dir.resolve().name}
        return abstain(adapter=adapter, mode=exported["mode"], reasons=[*doubts, *smoke, *remarks], **common)
    doubts, remarks = _inspection_reasons(features.inspection)
    return decide(
        _estimate(exported, features, probe),
        model,
        settings=settings,
        adapter=features.adapter,
        traffic_share=traffic_share,
        base=base_estimate(exported),
        doubts=doubts,
        remarks=[
            *smoke,
            *_memory_reasons(exported, features),
            *applicability_reasons(features, exported, model),
            *remarks,
        ],
        context=_context(predictor),
        # A zero update is told from the file, not predicted: no certificate is about it.
        commitment=None if certificate is None or _is_zero(features) else commitment_of(certificate.payload),
        **common,
    )


def default_settings(exported: Mapping[str, Any]) -> GateSettings:
    """Return the settings that an exported predictor implies: its standing depth, every depth it knows."""
    return GateSettings(
        standing_num_speculative_tokens=exported["standing_num_speculative_tokens"],
        candidate_depths=tuple(range(exported["max_depth"] + 1)),
    )


def _is_zero(features: AdapterFeatures) -> bool:
    return "N_ZERO_UPDATE" in features.codes


def _estimate(
    exported: Mapping[str, Any], features: AdapterFeatures, probe: CalibrationRecord | None
) -> AcceptanceEstimate:
    if _is_zero(features):
        return zero_update_estimate(exported)
    payload = features.to_dict()
    if probe is not None:
        payload = with_calibration(payload, probe, exported["num_calibration_prompts"])
    return predict(exported, column_set_of(exported["mode"]).from_groups(payload["columns"]))


def _inspection_reasons(inspection: Inspection) -> tuple[list[Reason], list[Reason]]:
    """Return (doubts, remarks): abstentions of the inspection are doubts, its notes are remarks."""
    told = [(finding["code"], finding["text"]) for finding in inspection.findings.to_list()]
    doubts = [reason for reason in told if not reason[0].startswith("N_")]
    return doubts, [reason for reason in told if reason[0].startswith("N_")]


def _smoke_reasons(*results: Result | None) -> list[Reason]:
    return [
        (
            "R_SYNTHETIC_SMOKE",
            f"the {result.kind.replace('_', ' ')} was made from synthetic values to try the software out: "
            "this verdict is no evidence",
        )
        for result in results
        if result is not None and result.evidence == "synthetic-smoke"
    ]


def _memory_reasons(exported: Mapping[str, Any], features: AdapterFeatures) -> list[Reason]:
    if not is_training_adapter(exported, features.adapter["weights_sha256"]):
        return []
    message = "the predictor was fitted on these very weights: it recalls this adapter rather than predicting it"
    return [("R_SEEN_IN_TRAINING", message)]


def _context(predictor: Result) -> dict[str, Any]:
    exported = predictor.payload
    return {
        "tier": predictor.tier,
        "evidence": predictor.evidence,
        "target_model": exported["target_model"],
        "draft_model": exported["draft_model"],
        "predictor": exported["predictor"],
        "num_training_adapters": exported["num_adapters"],
    }
