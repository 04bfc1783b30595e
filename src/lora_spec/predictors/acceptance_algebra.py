"""From conditional acceptance r_k to a_k and E_K and back, on the logit scale. Knows nothing of models."""

import numpy as np
from numpy.typing import NDArray

from lora_spec.records import AcceptanceCounts

Array = NDArray[np.float64]

# Jeffreys' half count keeps the logit of 0 or n successes finite; with hundreds of drafts it moves nothing else.
_HALF_COUNT = 0.5

# A model that extrapolates may say anything; odds beyond half a billion to one mean no more than these, and their
# products still differ from 0 and 1 in float64, so that no bound becomes infinity minus infinity.
_LARGEST_LOGIT = 20.0


def logit(probability: Array) -> Array:
    """Return log(p / (1 - p)); infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.log(probability) - np.log1p(-probability)


def sigmoid(value: Array) -> Array:
    """Return 1 / (1 + exp(-x)) without overflow."""
    return np.exp(-np.logaddexp(0.0, -value))


def smoothed_fraction(successes: Array, trials: Array) -> Array:
    """Return (successes + 1/2) / (trials + 1), strictly inside (0, 1)."""
    return (successes + _HALF_COUNT) / (trials + 2 * _HALF_COUNT)


def conditional_logits(counts: AcceptanceCounts, *, min_trials: int) -> Array:
    """Return logit r_k for k = 1..K, NaN where position k was reached fewer than ``min_trials`` times.

    r_k = P(draft k accepted | drafts 1..k-1 accepted). An adapter whose first drafts are never accepted says
    nothing about its deeper ones; a guess there would be read as data.
    """
    accepted = np.array(counts.num_accepted_tokens_per_pos, dtype=np.float64)
    trials = np.concatenate([[counts.num_drafts], accepted[:-1]])
    values = logit(smoothed_fraction(accepted, trials))
    return np.where(trials >= min_trials, values, np.nan)


def acceptance_rates(conditional: Array) -> Array:
    """Return a_k = prod_{i<=k} r_i from logit r, last axis k; falling in k by construction, strictly inside (0, 1)."""
    return np.cumprod(sigmoid(np.clip(conditional, -_LARGEST_LOGIT, _LARGEST_LOGIT)), axis=-1)


def acceptance_lengths(rates: Array) -> Array:
    """Return E_K = 1 + sum_{k<=K} a_k for K = 1.., last axis K."""
    return 1 + np.cumsum(rates, axis=-1)


def length_logits(lengths: Array) -> Array:
    """Return logit of (E_K - 1) / K, the mean acceptance over the K positions; last axis K = 1.."""
    depths = np.arange(1, lengths.shape[-1] + 1)
    return logit(np.clip((lengths - 1) / depths, 0.0, 1.0))


def lengths_from_logits(values: Array) -> Array:
    """Undo :func:`length_logits`."""
    return 1 + np.arange(1, values.shape[-1] + 1) * sigmoid(values)
