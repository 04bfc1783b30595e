"""What every predictor variant does: columns in, one logit of r_k per draft position out.

Everything else (folds, intervals, novelty, export) is the same for all and lives beside this file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FitSettings:
    """What a fit is told: the fleet's depth, the level of the intervals, and when data are too thin.

    Parameters
    ----------
    level
        Of the intervals, in (0, 1).
    standing_num_speculative_tokens
        K of the fleet today.
    min_adapters
        With fewer training adapters no interval is claimed but the whole possible range.
    min_trials_per_position
        Drafts that must have reached position k before an adapter says anything about r_k.
    num_neighbours, novelty_level
        Of the novelty check: neighbours averaged, and the quantile among the training adapters.
    range_margin
        How far outside the training range a used column may lie, as a fraction of that range.
    """

    level: float
    standing_num_speculative_tokens: int
    min_adapters: int = 0
    min_trials_per_position: int = 30
    num_neighbours: int = 3
    novelty_level: float = 0.95
    range_margin: float = 0.25


Logits = Callable[[Array], Array]
"""From a row of standardised columns, shape ``(num_columns,)``, to logit r_k of each model, ``(num_models, depth)``."""


class Variant(Protocol):
    """One kind of model. ``fit`` may import heavy packages; all else needs numpy alone."""

    def fit(self, x: Array, y: Array, *, sources: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fitted model as plain JSON data.

        Parameters
        ----------
        x
            Standardised columns, shape ``(n, num_columns)``.
        y
            logit r_k, shape ``(n, depth)``; NaN where an adapter says nothing about a position.
        sources
            The family of each row; inner cross-validation must not split one.
        options
            The variant's own settings from the config.

        Raises
        ------
        PredictorError
            The data cannot determine the model, or an option is unknown.
        """

    def logits(self, fitted: Mapping[str, Any], x: Array) -> Array:
        """Return logit r_k, shape ``(depth,)``, for one row of standardised columns, shape ``(num_columns,)``."""

    def stacked(self, models: Sequence[Mapping[str, Any]]) -> Logits:
        """Return :meth:`logits` of many fitted models at once: lists become arrays here and never again."""

    def used_columns(self, fitted: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return which columns have any effect, shape ``(num_columns,)``."""
