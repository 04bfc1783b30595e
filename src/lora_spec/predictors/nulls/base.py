"""A null: fitted on some adapters, it guesses the acceptance length of another."""

from collections.abc import Callable, Sequence
from typing import Protocol

from lora_spec.errors import PredictorError
from lora_spec.predictors.examples import TrainingExample

Guess = Callable[[TrainingExample], float]


class Null(Protocol):
    """One way to guess without a model of the update."""

    sees: str
    """What it looks at of the adapter that it guesses, in words."""
    orders_adapters: bool
    """Whether it says more of one adapter than of another. A guess that is the same for all adapters of a source
    differs between sources by what was left out alone, and so orders them backwards; that is no score of it."""

    def columns_at(self, depth: int) -> tuple[str, ...]:
        """Return the columns that it looks at to guess E_K at K = ``depth``; a mode that has them all is needed."""

    def fit(self, examples: Sequence[TrainingExample], depth: int) -> Guess:
        """Return the guess of E_K at K = ``depth`` that these adapters support; reads no truth of others."""


def acceptance_length(example: TrainingExample, depth: int) -> float:
    """Return the measured E_K of an adapter."""
    return example.counts_by_depth[depth - 1].acceptance_length


def check_columns(example: TrainingExample, columns: Sequence[str]) -> None:
    """Raise PredictorError where an adapter lacks a column that a null looks at."""
    missing = [column for column in columns if column not in example.columns.values]
    if missing:
        raise PredictorError(
            f"adapter {example.adapter!r}: its {example.columns.mode} columns hold no {missing[0]!r}, which a null "
            "looks at; give it columns of a mode that has them"
        )
