"""One way along an interval, for all that asks what a choice costs where the truth is elsewhere in it."""

from collections.abc import Iterable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from lora_spec.records import AcceptanceEstimate, Interval


def along(interval: Interval, positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values at positions of an interval: -1 lower end, 0 estimate, 1 upper end, beyond them further out."""
    ends = np.where(positions > 0, interval.upper, interval.lower)
    return interval.estimate + np.abs(positions) * (ends - interval.estimate)


def lengths_along(
    estimate: AcceptanceEstimate, positions: NDArray[np.float64], depths: Iterable[int]
) -> dict[int, NDArray[np.float64]]:
    """Return E_K at positions of its interval, by depth, cut off at 1 and K + 1; the depths move together."""
    return {k: np.clip(along(estimate.acceptance_length(k), positions), 1.0, k + 1.0) for k in depths}


def equally_likely_positions(level: float, num: int) -> NDArray[np.float64]:
    """Return normal quantiles from low to high, shape ``(num,)``, those of an interval's ends at -1 and 1."""
    normal = NormalDist()
    shares = (np.arange(num) + 0.5) / num
    return np.array([normal.inv_cdf(share) for share in shares]) / normal.inv_cdf((1 + level) / 2)
