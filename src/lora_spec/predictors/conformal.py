"""Jackknife+ bounds when adapters come in sources and the next adapter comes from a new one.

Each source gets the weight 1 / (S + 1), shared by its adapters, and the last 1 / (S + 1) lies at infinity for the
source not yet seen. With one adapter per source this is the ordinary jackknife+. Below 1 / (1 - level) - 1 sources
the bounds are infinite: so few sources cannot support that level, and saying so is the point.

References: Barber, Candes, Ramdas and Tibshirani 2021, jackknife+ (coverage at least 2 * level - 1, level as a rule);
Lee, Barber and Willett 2023, hierarchical data.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ROUNDING = 1e-12


def source_weights(sources: Sequence[str]) -> Array:
    """Return each adapter's weight: sources count alike, the unseen one takes the rest; shape ``(n,)``."""
    sizes = Counter(sources)
    return np.array([1 / ((len(sizes) + 1) * sizes[source]) for source in sources])


def upper_quantile(values: Array, weights: Array, level: float) -> Array:
    """Return the smallest value with weight ``level`` at or below it, infinity where all values weigh less.

    Parameters
    ----------
    values
        Shape ``(n, ...)``; the quantile is taken along the first axis.
    weights
        Shape ``(n,)``, with a sum below 1: the rest lies at infinity.
    """
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    reached = np.cumsum(weights[order], axis=0) >= level - _ROUNDING
    first = np.argmax(reached, axis=0)
    found = np.take_along_axis(ranked, first[None, ...], axis=0)[0]
    return np.where(reached.any(axis=0), found, np.inf)


def jackknife_plus_bounds(
    held_out_predictions: Array, residuals: Array, weights: Array, level: float
) -> tuple[Array, Array]:
    """Return the lower and upper bound for a new adapter.

    Parameters
    ----------
    held_out_predictions
        For the new adapter, by the model fitted without the source of training adapter i; shape ``(n, depth)``.
    residuals
        Absolute error of that model on training adapter i; shape ``(n, depth)``.
    """
    upper = upper_quantile(held_out_predictions + residuals, weights, level)
    lower = -upper_quantile(residuals - held_out_predictions, weights, level)
    return lower, upper


def min_sources(level: float) -> int:
    """Return the number of sources from which on the bounds at ``level`` are finite."""
    return int(np.ceil(level / (1 - level) - _ROUNDING * 1e3))
