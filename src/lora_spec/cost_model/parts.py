"""What a speculative step is made of: one verification of all tokens at hand, and K passes of the drafter."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PART_NAMES = ("verify_ms", "verify_per_token_ms", "draft_ms", "draft_per_request_ms")


def parts_design(depths: Sequence[int], batch_sizes: Sequence[int]) -> Array:
    """Return how often each part occurs in a step, shape ``(num_depths * num_batch_sizes, 4)``, depths outermost.

    T_K(B) = verify + verify_per_token * B (K + 1) + K (draft + draft_per_request * B): the target reads its weights
    once and works for B (K + 1) tokens; each of K draft passes reads the drafter's and works for B requests.
    """
    return np.array([[1, b * (k + 1), k, k * b] for k in depths for b in batch_sizes], dtype=np.float64)


def fit_parts(times_ms: Array, design: Array) -> Array:
    """Return the parts, none negative, with the least squared relative errors; shape ``(4,)`` in ms."""
    from scipy.optimize import nnls

    return nnls(design / times_ms.reshape(-1, 1), np.ones(times_ms.size))[0]
