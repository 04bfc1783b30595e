"""From the gate's config section to what a fit is told."""

from typing import Any

from lora_spec.config.gate import GateConfig
from lora_spec.predictors.base import FitSettings


def fit_settings(config: GateConfig) -> FitSettings:
    """Return the settings that hold for every variant."""
    return FitSettings(
        level=config.level,
        standing_num_speculative_tokens=config.standing_num_speculative_tokens,
        min_adapters=config.predictor.min_adapters,
        novelty_level=config.predictor.max_ood_quantile,
    )


def variant_options(config: GateConfig) -> dict[str, Any]:
    """Return the options of the variant that the config names."""
    predictor = config.predictor
    return {
        "penalties": predictor.penalties,
        "l1_ratios": predictor.l1_ratios,
        "num_folds": predictor.num_folds,
    }
