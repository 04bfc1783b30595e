"""A prediction without an interval: one fit and no folds inside, which is all that comparing predictors needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.predictors import acceptance_algebra as algebra
from lora_spec.predictors.base import FitSettings, Variant
from lora_spec.predictors.columns import ColumnSet
from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.fitting import check_examples, conditional_logit_rows, standardised

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PointModel:
    """A fitted variant with the scaling of the adapters that it was fitted on."""

    variant: Variant
    model: Mapping[str, Any]
    columns: Sequence[str]
    centre: Array
    spread: Array

    def rates(self, columns: ColumnSet) -> Array:
        """Return a_1..a_K: the estimate of :func:`lora_spec.predictors.prediction.predict`, shape ``(depth,)``."""
        x = (np.array([columns.values[name] for name in self.columns]) - self.centre) / self.spread
        return algebra.acceptance_rates(self.variant.logits(self.model, x))


def fit_point(
    variant: Variant, examples: Sequence[TrainingExample], *, settings: FitSettings, options: Mapping[str, Any]
) -> PointModel:
    """Fit a variant as :func:`lora_spec.predictors.fitting.fit_predictor` does, without what its interval needs.

    Raises
    ------
    PredictorError
        The examples cannot train a predictor.
    """
    check_examples(examples, settings)
    x, scaling = standardised(examples)
    y = conditional_logit_rows(examples, settings)
    model = variant.fit(x, y, sources=[example.source for example in examples], options=options)
    centre, spread = np.array(scaling["centre"]), np.array(scaling["spread"])
    return PointModel(variant, model, scaling["columns"], centre, spread)
