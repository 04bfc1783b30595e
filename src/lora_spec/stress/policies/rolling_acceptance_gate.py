"""Speculation stops for an adapter once the acceptance rate of its last drafts is low, and does not come back.

As TensorRT-LLM's speculation gate, but per adapter: what no longer drafts can show no acceptance.
"""

from collections import deque
from functools import partial

from lora_spec.stress.policies.base import Candidates, Chooser, Situation

NAME = "rolling_acceptance_gate"


class RollingGate(Chooser):
    """Watches a sliding window of drafts per adapter."""

    is_learning = True

    def __init__(self, *, depth: int, window_drafts: int, min_acceptance_rate: float) -> None:
        self._depth = depth
        self._window_drafts = window_drafts
        self._min_acceptance_rate = min_acceptance_rate
        self._windows: dict[str | None, deque[int]] = {}
        self._accepted: dict[str | None, int] = {}
        self._off: set[str | None] = set()

    def begin_step(self, batch_size: int, now_s: float) -> int:
        """Return one key: what changes comes by observing."""
        return 0

    def depth(self, adapter: str | None) -> int:
        """Return the standing depth, or 0 once the gate has shut."""
        return 0 if adapter in self._off else self._depth

    def observe(self, adapter: str | None, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Shut the gate where a full window accepts too little."""
        if not num_draft_tokens or adapter in self._off:
            return
        window = self._windows.setdefault(adapter, deque())
        window.append(num_accepted_tokens)
        accepted = self._accepted.get(adapter, 0) + num_accepted_tokens
        if len(window) > self._window_drafts:
            accepted -= window.popleft()
        self._accepted[adapter] = accepted
        if len(window) == self._window_drafts:
            rate = accepted / (self._window_drafts * self._depth)
            if rate < self._min_acceptance_rate:
                self._off.add(adapter)


def rolling_acceptance_gate(situation: Situation) -> Candidates:
    """Return the gate at the standing depth."""
    make = partial(
        RollingGate,
        depth=situation.standing_depth,
        window_drafts=situation.option(NAME, "window_drafts"),
        min_acceptance_rate=situation.option(NAME, "min_acceptance_rate"),
    )
    return {"rolling": make}
