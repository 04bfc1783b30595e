"""A few hot adapters and a long tail, Poisson arrivals."""

from dataclasses import dataclass

import numpy as np

from lora_spec.traffic.patterns.base import Array, Pattern, poisson_times


@dataclass(frozen=True)
class ZipfTraffic(Pattern):
    """The adapter of rank i has a share proportional to i^-exponent."""

    exponent: float

    def shares(self, num_adapters: int) -> Array:
        """Return i^-exponent over its sum, i = 1, 2, ..."""
        weights = np.arange(1, num_adapters + 1, dtype=np.float64) ** -self.exponent
        return weights / weights.sum()

    def arrival_times(self, rate_req_s: float, duration_s: float, rng: np.random.Generator) -> Array:
        """Return Poisson times."""
        return poisson_times(rate_req_s, duration_s, rng)
