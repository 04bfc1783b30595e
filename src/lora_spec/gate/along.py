"""One way along an interval, for all that asks what a choice costs where the truth is elsewhere in it."""

import numpy as np
from numpy.typing import NDArray

from lora_spec.records import Interval


def along(interval: Interval, positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values at positions of an interval: -1 lower end, 0 estimate, 1 upper end, beyond them further out."""
    ends = np.where(positions > 0, interval.upper, interval.lower)
    return interval.estimate + np.abs(positions) * (ends - interval.estimate)
