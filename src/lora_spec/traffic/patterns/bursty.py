"""Quiet and busy phases alternate: a Poisson process modulated by a two-state Markov chain."""

from dataclasses import dataclass

import numpy as np

from lora_spec.errors import ConfigError
from lora_spec.traffic.patterns.base import Array, Pattern, equal_shares, poisson_times

_MOST_BURSTS = 100_000


@dataclass(frozen=True)
class BurstyTraffic(Pattern):
    """Phases have exponential lengths; the mean rate over long times is the one asked for.

    Parameters
    ----------
    burst_factor
        Rate in a burst over the mean rate.
    mean_burst_s
        Mean length of a burst.
    burst_share
        Share of time spent in bursts, in (0, 1).

    References: Fischer and Meier-Hellstern 1993, "The Markov-modulated Poisson process (MMPP) cookbook".
    """

    burst_factor: float
    mean_burst_s: float
    burst_share: float

    def shares(self, num_adapters: int) -> Array:
        """Return the same share for all."""
        return equal_shares(num_adapters)

    def arrival_times(self, rate_req_s: float, duration_s: float, rng: np.random.Generator) -> Array:
        """Return the times of all phases; the first phase is drawn by the share of time of each kind."""
        mean_quiet_s = self.mean_burst_s * (1 - self.burst_share) / self.burst_share
        quiet_factor = (1 - self.burst_factor * self.burst_share) / (1 - self.burst_share)
        if duration_s > _MOST_BURSTS * (self.mean_burst_s + mean_quiet_s):
            raise ConfigError(
                f"bursts of {self.mean_burst_s:g} s over {duration_s:g} s are more than {_MOST_BURSTS}; lengthen "
                "mean_burst_s or shorten the run"
            )
        times, start_s, is_burst = [], 0.0, rng.random() < self.burst_share
        while start_s < duration_s:
            length_s = rng.exponential(self.mean_burst_s if is_burst else mean_quiet_s)
            end_s = min(start_s + length_s, duration_s)
            factor = self.burst_factor if is_burst else quiet_factor
            times.append(start_s + poisson_times(factor * rate_req_s, end_s - start_s, rng))
            start_s, is_burst = end_s, not is_burst
        return np.concatenate(times)
