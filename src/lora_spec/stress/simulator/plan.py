"""Steps that an engine is about to take: all alike but for a context that grows."""

import math
from dataclasses import dataclass

from lora_spec.stress.simulator.open_request import OpenRequest


@dataclass(slots=True)
class Plan:
    """``num_steps`` steps from ``start_s`` on.

    Parameters
    ----------
    decoding, chunks, missing
        Requests that decode in them; prompts of which a part is computed, with its tokens; requests without a place.
    load_s
        Time for adapters before the first step.
    first_s, growth_s
        Length of the first step, and what every further one lasts longer than the one before.
    """

    start_s: float
    num_steps: int
    decoding: list[OpenRequest]
    chunks: list[tuple[OpenRequest, int]]
    missing: list[OpenRequest]
    load_s: float
    first_s: float
    growth_s: float
    end_s: float = 0.0

    def __post_init__(self) -> None:
        self.end_s = self.start_s + self._lasts_s(self.num_steps)

    def _lasts_s(self, num_steps: int) -> float:
        return self.load_s + num_steps * self.first_s + self.growth_s * num_steps * (num_steps - 1) / 2

    def shorten(self, time_s: float) -> None:
        """Leave only the steps up to the first one that ends at ``time_s`` or later."""
        if self.num_steps == 1 or time_s >= self.end_s:
            return
        mean_s = (self._lasts_s(self.num_steps) - self.load_s) / self.num_steps
        guess = math.ceil((time_s - self.start_s - self.load_s) / mean_s)
        num_steps = max(1, min(guess, self.num_steps))
        while num_steps < self.num_steps and self.start_s + self._lasts_s(num_steps) < time_s:
            num_steps += 1
        while num_steps > 1 and self.start_s + self._lasts_s(num_steps - 1) >= time_s:
            num_steps -= 1
        self.num_steps = num_steps
        self.end_s = self.start_s + self._lasts_s(num_steps)

    def cut(self, time_s: float) -> bool:
        """Leave only the steps that end by ``time_s``; return whether there are any."""
        self.shorten(time_s)
        if self.end_s > time_s:
            self.num_steps -= 1
            self.end_s = self.start_s + self._lasts_s(self.num_steps)
        return self.num_steps > 0
