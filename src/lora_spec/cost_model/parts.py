"""What a speculative step is made of: one verification of all tokens at hand, and K passes of the drafter."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PART_NAMES = ("verify_ms", "verify_per_token_ms", "speculate_ms", "draft_ms", "draft_per_request_ms")

# A line that falls to nothing at some cell must not make its logarithm infinite: it is wrong there in any case.
_LEAST_SHARE = 1e-3


def parts_design(depths: Sequence[int], batch_sizes: Sequence[int]) -> Array:
    """Return how often each part occurs in a step, shape ``(num_depths * num_batch_sizes, 5)``, depths outermost.

    T_K(B) = verify + verify_per_token * B (K + 1) + [K > 0] speculate + K (draft + draft_per_request * B): the target
    reads its weights once and works for B (K + 1) tokens; to speculate at all costs something; each of K draft passes
    reads the drafter's weights and works for B requests.
    """
    return np.array([[1, b * (k + 1), k > 0, k, k * b] for k in depths for b in batch_sizes], dtype=np.float64)


def fit_parts(times_ms: Array, design: Array, weights: Array | None = None) -> Array:
    """Return the parts, none negative, with the least weighted squared relative errors; shape ``(5,)`` in ms."""
    from scipy.optimize import nnls

    root = np.ones(times_ms.size) if weights is None else np.sqrt(weights / weights.max()).ravel()
    return nnls(design * (root / times_ms.ravel())[:, None], root)[0]


def line_of_parts(times_ms: Array, design: Array, weights: Array | None = None) -> Array:
    """Return the fitted line at the cells, of their shape, in ms; nowhere below a thousandth of the cell."""
    line = (design @ fit_parts(times_ms, design, weights)).reshape(times_ms.shape)
    return np.maximum(line, _LEAST_SHARE * times_ms)
