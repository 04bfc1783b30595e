"""Ridge regression on a few named columns: the norm of the update, or the recipe that its config tells."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import PredictorError
from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.nulls.base import Guess, acceptance_length

_PENALTIES = tuple(10.0**power for power in range(-3, 4))


class RidgeNull:
    """See :class:`lora_spec.predictors.nulls.base.Null`; leave-one-out on the adapters seen chooses the penalty."""

    def __init__(self, columns: Sequence[str], sees: str) -> None:
        self.columns = tuple(columns)
        self.sees = sees

    def fit(self, examples: Sequence[TrainingExample], depth: int) -> Guess:
        """Return the ridge on the standardised columns."""
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model: Any = make_pipeline(StandardScaler(), RidgeCV(alphas=_PENALTIES))
        model.fit(np.array([self._row(e) for e in examples]), [acceptance_length(e, depth) for e in examples])
        return lambda example: float(model.predict(self._row(example)[None])[0])

    def _row(self, example: TrainingExample) -> NDArray[np.float64]:
        missing = [column for column in self.columns if column not in example.columns.values]
        if missing:
            raise PredictorError(
                f"adapter {example.adapter!r}: its {example.columns.mode} columns hold no {missing[0]!r}, which a null "
                "looks at; give it columns of a mode that has them"
            )
        return np.array([example.columns.values[column] for column in self.columns])
