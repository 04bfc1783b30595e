"""Ridge regression on a few named columns: the norm of the update, or the recipe that its config tells."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.nulls.base import Guess, acceptance_length, check_columns

_PENALTIES = tuple(10.0**power for power in range(-3, 4))


class RidgeNull:
    """See :class:`lora_spec.predictors.nulls.base.Null`; leave-one-out on the adapters seen chooses the penalty."""

    orders_adapters = True

    def __init__(self, columns: Sequence[str], sees: str) -> None:
        self.columns = tuple(columns)
        self.sees = sees

    def columns_at(self, depth: int) -> tuple[str, ...]:
        """Return its columns, the same at every depth."""
        return self.columns

    def fit(self, examples: Sequence[TrainingExample], depth: int) -> Guess:
        """Return the ridge on the standardised columns."""
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model: Any = make_pipeline(StandardScaler(), RidgeCV(alphas=_PENALTIES))
        model.fit(np.array([self._row(e) for e in examples]), [acceptance_length(e, depth) for e in examples])
        return lambda example: float(model.predict(self._row(example)[None])[0])

    def _row(self, example: TrainingExample) -> NDArray[np.float64]:
        check_columns(example, self.columns)
        return np.array([example.columns.values[column] for column in self.columns])
