"""What repeated trials say about a time: the drift that a trial shares, and an estimate that is deaf to bad ones."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_POLISH_SWEEPS = 10


def trial_drift(logs: Array) -> Array:
    """Return what all cells of a trial share, relative to the middle trial; shape ``(trials,)``.

    ``logs`` holds logarithms of times, trials along the first axis.

    Reference: Tukey 1977, "Exploratory Data Analysis", median polish.
    """
    flat = logs.reshape(len(logs), -1)
    cells, drift = np.median(flat, axis=0), np.zeros(len(logs))
    for _ in range(_POLISH_SWEEPS):
        drift = np.median(flat - cells, axis=1)
        drift -= np.median(drift)
        cells = np.median(flat - drift[:, None], axis=0)
    return drift


def hodges_lehmann(logs: Array, *, axis: int) -> Array:
    """Return the median of pairwise means over the trials, which lie along ``axis``."""
    logs = np.moveaxis(logs, axis, 0)
    first, second = np.triu_indices(len(logs))
    return np.median((logs[first] + logs[second]) / 2, axis=0)


def widened(drawn: Array, estimate: Array, num_trials: int) -> Array:
    """Return bootstrap draws spread by n / (n - 1) in variance for the n trials that they stand for."""
    return estimate + np.sqrt(num_trials / (num_trials - 1)) * (drawn - estimate)
