"""From the values of ``gate.yaml`` to what a fit is told."""

from collections.abc import Mapping
from typing import Any

from lora_spec.predictors.base import FitSettings
from lora_spec.predictors.columns import CheckpointCalibColumns


def fit_settings(gate: Mapping[str, Any]) -> FitSettings:
    """Return the settings that hold for every variant; keys are those of ``gate.yaml``."""
    return FitSettings(
        level=gate["level"],
        standing_num_speculative_tokens=gate["standing_num_speculative_tokens"],
        min_adapters=gate["predictor"]["min_adapters"],
        min_trials_per_position=gate["predictor"]["min_trials_per_position"],
        novelty_level=gate["predictor"]["max_ood_quantile"],
    )


def variant_options(gate: Mapping[str, Any], name: str | None = None) -> dict[str, Any]:
    """Return the options of a variant, by default of the one that ``gate.yaml`` names."""
    predictor = gate["predictor"]
    return {**predictor[name or predictor["model"]], "num_folds": predictor["num_folds"]}


def probed_gate(gate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the gate with a predictor that looks at calibration probes: asked where weights alone abstain."""
    return {**gate, "predictor": {**gate["predictor"], "mode": CheckpointCalibColumns.mode}}
