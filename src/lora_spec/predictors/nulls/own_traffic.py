"""The unadapted target on the adapter's own prompts: what the domain alone says."""

from collections.abc import Sequence

import numpy as np

from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.nulls.base import Guess, acceptance_length


class OwnTrafficNull:
    """See :class:`lora_spec.predictors.nulls.base.Null`.

    A domain's label says nothing of a domain not seen; what can be known of it without the adapter is how well the
    base's drafts do on its prompts. A line through the adapters seen turns that into a guess.
    """

    sees = "the base's acceptance on the adapter's own prompts"
    orders_adapters = True

    def columns_at(self, depth: int) -> tuple[str, ...]:
        """Return none."""
        return ()

    def fit(self, examples: Sequence[TrainingExample], depth: int) -> Guess:
        """Return a + b * (the base's E_K on the same prompts), by least squares."""
        base = np.array([_base_length(example, depth) for example in examples])
        lengths = np.array([acceptance_length(example, depth) for example in examples])
        design = np.column_stack([np.ones(len(base)), base])
        intercept, slope = np.linalg.lstsq(design, lengths)[0]
        return lambda example: float(intercept + slope * _base_length(example, depth))


def _base_length(example: TrainingExample, depth: int) -> float:
    return example.base_counts_by_depth[depth - 1].acceptance_length
