"""Does what was measured hold for this adapter: the same pair of models, its rank, the base that it was made for?"""

from collections.abc import Mapping
from typing import Any

from lora_spec.calibration_record import CalibrationRecord
from lora_spec.cost_model import CostModel
from lora_spec.errors import ConfigError
from lora_spec.features import AdapterFeatures, BaseProfile
from lora_spec.features.columns import CheckpointCalibColumns
from lora_spec.printing import printable

Reason = tuple[str, str]


def check_same_pair(predictor: Mapping[str, Any], cost_model: CostModel) -> None:
    """Refuse a cost model whose times are those of other models than the predictor is about.

    Parameters
    ----------
    predictor
        The exported predictor or its context, with ``target_model`` and ``draft_model``.

    Raises
    ------
    ConfigError
        A name differs. A cost model that names no models is taken as it is.
    """
    engine = cost_model.context.get("engine")
    named = engine if isinstance(engine, Mapping) else {}
    for key, role in (("target_model", "target"), ("draft_model", "drafter")):
        timed, expected = named.get(role), predictor.get(key)
        if None not in (timed, expected) and timed != expected:
            raise ConfigError(
                f"the predictor is for {role} {printable(expected)}, the cost model was timed with "
                f"{printable(timed)}; give the cost model of the same pair"
            )


def check_profile(predictor: Mapping[str, Any], profile: BaseProfile | None) -> None:
    """Refuse a predictor of mode ``checkpoint_base`` without a base profile, and a profile of another pair.

    Raises
    ------
    ConfigError
        The predictor needs what was not given, or what was given is of other models than it is about.
    """
    if profile is None:
        if predictor["mode"] == "checkpoint_base":
            raise ConfigError(
                "the predictor looks at how an adapter meets its base; give the base profile that it was fitted with"
            )
        return
    for key, role in (("target_model", "target"), ("draft_model", "drafter")):
        recorded = profile.header[role]["name"]
        if recorded != predictor[key]:
            raise ConfigError(
                f"the predictor is for {role} {printable(predictor[key])}, the base profile is of "
                f"{printable(recorded)}; give the profile of the same pair"
            )


def check_probe(predictor: Mapping[str, Any], probe: CalibrationRecord | None) -> None:
    """Refuse a predictor of mode ``checkpoint_calib`` without a calibration record, and a record to any other.

    Raises
    ------
    ConfigError
        The predictor needs what was not given, or does not look at what was.
    """
    is_needed = predictor["mode"] == CheckpointCalibColumns.mode
    if is_needed and probe is None:
        raise ConfigError(
            f"the predictor looks at a calibration probe of {predictor.get('num_calibration_prompts')} prompts; probe "
            "the adapter (scripts/calibration_probe.py) and give its record, or take a predictor of another mode"
        )
    if probe is not None and not is_needed:
        raise ConfigError(
            f"the predictor is of mode {printable(predictor['mode'])} and does not look at calibration probes; leave "
            "the record away, or take a predictor of mode checkpoint_calib"
        )
    if is_needed and not isinstance(predictor.get("num_calibration_prompts"), int):
        raise ConfigError("the predictor does not say of how many prompts its probes were; fit and export it again")


def check_same_gate(predictor: Mapping[str, Any], gate: Mapping[str, Any], *, where: str) -> None:
    """Refuse a gate that asks for other predictions than the predictor makes.

    Raises
    ------
    ConfigError
        Level, feature mode or the least number of training adapters differ: a verdict would claim the gate's with the
        predictor's. One that looks at calibration probes is the second opinion of any gate.
    """
    keys = ("min_adapters",) if predictor["mode"] == CheckpointCalibColumns.mode else ("mode", "min_adapters")
    asked = {"level": gate["level"], **{key: gate["predictor"][key] for key in keys}}
    for key, value in asked.items():
        if predictor[key] != value:
            raise ConfigError(
                f"{printable(where)}: {key} is {value}, the predictor was made with {printable(predictor[key])}; give "
                "the gate that it was made with, or fit the predictor again"
            )


def applicability_reasons(
    features: AdapterFeatures, predictor: Mapping[str, Any], cost_model: CostModel | None
) -> list[Reason]:
    """Return remarks where the adapter lies outside what was measured; they change no action."""
    return [*_rank_reasons(features, cost_model), *_base_reasons(features, predictor["target_model"])]


def _rank_reasons(features: AdapterFeatures, cost_model: CostModel | None) -> list[Reason]:
    timed = None if cost_model is None else cost_model.context.get("lora_rank")
    rank = max((module.rank for module in features.inspection.modules), default=0)
    if not isinstance(timed, int) or rank <= timed:
        return []
    message = f"the adapter has rank {rank}, step times were taken at rank {timed}: its steps may take longer"
    return [("R_RANK_NOT_TIMED", message)]


def _base_reasons(features: AdapterFeatures, target_model: str) -> list[Reason]:
    told = (features.inspection.config or {}).get("base_model_name_or_path")
    if not isinstance(told, str) or not told.strip("/ ") or _last(told) == _last(target_model):
        return []
    message = (
        f"adapter_config.json names the base {printable(told)}, the predictor is about {printable(target_model)}: "
        "check that they are one model"
    )
    return [("R_BASE_NAME_DIFFERS", message)]


def _last(name: str) -> str:
    """Return the last part of a repository or a path: who uploaded a model does not make it another one."""
    return name.replace("\\", "/").rstrip("/ ").rpartition("/")[2].casefold()
