"""Guesses acceptance from an adapter's columns, with an interval and a word on how far it is from what was seen.

Knows nothing of time, load or actions: what an acceptance is worth is not its business.
"""

from lora_spec.predictors.base import FitSettings
from lora_spec.predictors.columns import ColumnSet, column_set_of
from lora_spec.predictors.examples import TrainingExample, training_example
from lora_spec.predictors.fitting import fit_predictor
from lora_spec.predictors.held_out import FittedAndHeldOut, fit_and_hold_out
from lora_spec.predictors.prediction import (
    base_estimate,
    is_training_adapter,
    mismatch,
    predict,
    zero_update_estimate,
)
from lora_spec.predictors.prepared import PreparedPredictor, prepare
from lora_spec.predictors.settings import fit_settings, variant_options

__all__ = [
    "ColumnSet",
    "FitSettings",
    "FittedAndHeldOut",
    "PreparedPredictor",
    "TrainingExample",
    "base_estimate",
    "column_set_of",
    "fit_and_hold_out",
    "fit_predictor",
    "fit_settings",
    "is_training_adapter",
    "mismatch",
    "predict",
    "prepare",
    "training_example",
    "variant_options",
    "zero_update_estimate",
]
