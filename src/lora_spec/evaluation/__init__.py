"""Says how good predictions are: splits that leave whole sources out, scores with intervals, coverage.

Knows nothing of how a prediction was made, nor of what it will be used for.
"""

from lora_spec.evaluation.permutation import permutation_p_value
from lora_spec.evaluation.resampling import Resampled, SourceDraws, draw_sources
from lora_spec.evaluation.scores import (
    auroc,
    bootstrap_interval,
    coverage,
    equal_source_weights,
    mean_absolute_error,
    prevalence,
    rate_errors,
    source_mean,
    spearman,
)
from lora_spec.evaluation.splits import leave_source_out, predict_across

__all__ = [
    "Resampled",
    "SourceDraws",
    "auroc",
    "bootstrap_interval",
    "coverage",
    "draw_sources",
    "equal_source_weights",
    "leave_source_out",
    "mean_absolute_error",
    "permutation_p_value",
    "predict_across",
    "prevalence",
    "rate_errors",
    "source_mean",
    "spearman",
]
