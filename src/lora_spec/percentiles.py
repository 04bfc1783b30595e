"""The percentile interval of resampled values: the one way from draws to an interval."""

import numpy as np
from numpy.typing import ArrayLike

from lora_spec.records import Interval


def percentile_interval(estimate: float, draws: ArrayLike, level: float) -> Interval:
    """Return the central interval of the draws, stretched where needed to hold the estimate.

    References: Davison and Hinkley 1997, section 5.3.
    """
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval.around(estimate, float(lower), float(upper), level)
