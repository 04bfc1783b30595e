"""Tries depths on a share of windows and else runs the one that has done best: an epsilon-greedy bandit per adapter.

References: Sutton and Barto 2018, chapter 2.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from lora_spec.policy.policy_file import Load, load_index
from lora_spec.stress.policies.base import Candidates, Chooser, Situation

NAME = "online_bandit"


@dataclass
class _Arms:
    """What one adapter's depths have given so far, in tokens per time of a step without drafts."""

    depth: int
    num_steps: list[int]
    sum_rewards: list[float]
    num_in_window: int = field(default=0)

    def best(self) -> int:
        """Return the depth with the largest mean, the shallowest of equals; what was never tried does not count."""
        return max(
            (depth for depth, steps in enumerate(self.num_steps) if steps),
            key=lambda depth: (self.sum_rewards[depth] / self.num_steps[depth], -depth),
        )


class OnlineBandit(Chooser):
    """Windows of decode steps at one depth; the cost of a depth at a load is told, its acceptance is learned."""

    is_learning = True

    def __init__(
        self,
        loads: tuple[Load, ...],
        *,
        max_depth: int,
        first_depth: int,
        window_drafts: int,
        exploration_share: float,
        seed: int,
    ) -> None:
        self._loads = loads
        self._max_depth = max_depth
        self._first_depth = first_depth
        self._window_drafts = window_drafts
        self._exploration_share = exploration_share
        self._rng = np.random.default_rng(seed)
        self._arms: dict[str | None, _Arms] = {}
        self._ratios = loads[0].step_time_ratios

    def begin_step(self, batch_size: int, now_s: float) -> int:
        """Note what depths cost at this load."""
        self._ratios = self._loads[load_index(self._loads, batch_size)].step_time_ratios
        return 0

    def depth(self, adapter: str | None) -> int:
        """Return the depth of the adapter's window."""
        return self._arms_of(adapter).depth

    def _arms_of(self, adapter: str | None) -> _Arms:
        if adapter not in self._arms:
            arms = _Arms(self._first_depth, [0] * (self._max_depth + 1), [0.0] * (self._max_depth + 1))
            arms.num_steps[0], arms.sum_rewards[0] = 1, 1.0  # one token in one time, by definition
            self._arms[adapter] = arms
        return self._arms[adapter]

    def observe(self, adapter: str | None, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Count a decode step and begin another window where this one is full."""
        arms = self._arms_of(adapter)
        arms.num_steps[num_draft_tokens] += 1
        arms.sum_rewards[num_draft_tokens] += (1 + num_accepted_tokens) / self._ratios[num_draft_tokens]
        arms.num_in_window += 1
        if arms.num_in_window >= self._window_drafts:
            arms.num_in_window = 0
            is_trial = self._rng.random() < self._exploration_share
            arms.depth = int(self._rng.integers(self._max_depth + 1)) if is_trial else arms.best()


def online_bandit(situation: Situation) -> Candidates:
    """Return a bandit that begins at the standing depth."""
    make = partial(
        OnlineBandit,
        situation.loads,
        max_depth=situation.max_depth,
        first_depth=situation.standing_depth,
        window_drafts=situation.option(NAME, "window_drafts"),
        exploration_share=situation.option(NAME, "exploration_share"),
        seed=situation.seed,
    )
    return {"bandit": make}
