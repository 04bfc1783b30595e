"""The mean of the adapters seen: what is guessed of an adapter nobody looked at."""

from collections.abc import Sequence

import numpy as np

from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.nulls.base import Guess, acceptance_length


class MeanNull:
    """See :class:`lora_spec.predictors.nulls.base.Null`."""

    sees = "nothing of the adapter"
    orders_adapters = False

    def columns_at(self, depth: int) -> tuple[str, ...]:
        """Return none."""
        return ()

    def fit(self, examples: Sequence[TrainingExample], depth: int) -> Guess:
        """Return the mean, for every adapter."""
        mean = float(np.mean([acceptance_length(example, depth) for example in examples]))
        return lambda _: mean
