"""One way along an interval, for all that asks what a choice costs where the truth is elsewhere in it."""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from lora_spec.records import Interval


def along(interval: Interval, positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values at positions of an interval: -1 lower end, 0 estimate, 1 upper end, beyond them further out."""
    ends = np.where(positions > 0, interval.upper, interval.lower)
    return interval.estimate + np.abs(positions) * (ends - interval.estimate)


def equally_likely_positions(level: float, num: int) -> NDArray[np.float64]:
    """Return normal quantiles from low to high, shape ``(num,)``, those of an interval's ends at -1 and 1."""
    normal = NormalDist()
    shares = (np.arange(num) + 0.5) / num
    return np.array([normal.inv_cdf(share) for share in shares]) / normal.inv_cdf((1 + level) / 2)
