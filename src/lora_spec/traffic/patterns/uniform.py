"""All adapters equally popular, Poisson arrivals."""

import numpy as np

from lora_spec.traffic.patterns.base import Array, Pattern, equal_shares, poisson_times


class UniformTraffic(Pattern):
    """Nothing is hot and nothing is bursty: the adapter cache has the hardest time."""

    def shares(self, num_adapters: int) -> Array:
        """Return the same share for all."""
        return equal_shares(num_adapters)

    def arrival_times(self, rate_req_s: float, duration_s: float, rng: np.random.Generator) -> Array:
        """Return Poisson times."""
        return poisson_times(rate_req_s, duration_s, rng)
