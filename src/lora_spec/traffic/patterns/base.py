"""What a traffic pattern is: how popular adapters are, and when requests arrive."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Pattern(ABC):
    """A pattern; times are seconds from the start, rates are requests per second."""

    @abstractmethod
    def shares(self, num_adapters: int) -> Array:
        """Return each adapter's share of the requests, the most popular first; they add up to 1."""

    @abstractmethod
    def arrival_times(self, rate_req_s: float, duration_s: float, rng: np.random.Generator) -> Array:
        """Return rising arrival times in [0, duration); their expected number is rate x duration."""


def poisson_times(rate_req_s: float, duration_s: float, rng: np.random.Generator) -> Array:
    """Return the times of a Poisson process: their number is drawn, then each falls anywhere alike."""
    return np.sort(rng.uniform(0, duration_s, size=rng.poisson(rate_req_s * duration_s)))


def equal_shares(num_adapters: int) -> Array:
    """Return the same share for all."""
    return np.full(num_adapters, 1 / num_adapters)
