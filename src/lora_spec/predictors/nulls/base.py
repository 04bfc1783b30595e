"""A null: fitted on some adapters, it guesses the acceptance length of another."""

from collections.abc import Callable, Sequence
from typing import Protocol

from lora_spec.predictors.examples import TrainingExample

Guess = Callable[[TrainingExample], float]


class Null(Protocol):
    """One way to guess without a model of the update."""

    sees: str
    """What it looks at of the adapter that it guesses, in words."""

    def fit(self, examples: Sequence[TrainingExample], depth: int) -> Guess:
        """Return the guess of E_K at K = ``depth`` that these adapters support; reads no truth of others."""


def acceptance_length(example: TrainingExample, depth: int) -> float:
    """Return the measured E_K of an adapter."""
    return example.counts_by_depth[depth - 1].acceptance_length
