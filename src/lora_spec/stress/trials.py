"""A number over trials, one per seed, with its interval; and one policy against another on the same arrivals."""

from collections.abc import Sequence

import numpy as np

from lora_spec.errors import MeasurementError
from lora_spec.records import Interval


def mean_ratio(numerators: Sequence[float], denominators: Sequence[float], *, level: float) -> Interval:
    """Return the geometric mean of paired ratios, with Student's interval of their logarithms.

    With one trial there is no interval: both of its ends are the estimate, and the caller says how many trials it had.

    Parameters
    ----------
    numerators, denominators
        Positive, one of each per trial, in the order of the trials.

    Raises
    ------
    MeasurementError
        They do not pair up, or there is none.
    """
    if len(numerators) != len(denominators) or not numerators:
        raise MeasurementError(
            f"{len(numerators)} and {len(denominators)} trials do not pair up; run every policy on every seed"
        )
    logs = np.log(numerators) - np.log(denominators)
    mean, half = float(logs.mean()), 0.0
    if len(logs) > 1:
        from scipy.stats import t

        half = float(t.ppf((1 + level) / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs)))
    return Interval(float(np.exp(mean)), float(np.exp(mean - half)), float(np.exp(mean + half)), level)
