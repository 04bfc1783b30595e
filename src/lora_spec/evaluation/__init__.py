"""Says how good predictions are: splits that leave whole sources out, scores with intervals, coverage.

Knows nothing of how a prediction was made, nor of what it will be used for.
"""

from lora_spec.evaluation.scores import bootstrap_interval, coverage, mean_absolute_error, spearman
from lora_spec.evaluation.splits import leave_source_out, predict_across

__all__ = [
    "bootstrap_interval",
    "coverage",
    "leave_source_out",
    "mean_absolute_error",
    "predict_across",
    "spearman",
]
