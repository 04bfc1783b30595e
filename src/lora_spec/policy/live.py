"""Live acceptance against the policy: an adapter that loses is made shallower, and probed before it comes back.

A draft step of an adapter at depth d yields 1 + accepted tokens and costs T_d / T_0 of a step without drafts. Over a
window of n steps, with m the mean of the tokens, s their standard deviation and c the mean of the cost ratios (loads
change from step to step), speculation loses where

    m + z s / sqrt(n) < (1 - hysteresis) c

and the depth becomes, at every load, the k up to the policy's own with the largest E_k / (T_k / T_0), E_k from the
window's own acceptance per position. A probe lets the adapter run at the policy's depth again for some draft steps; it
comes back where m - z s / sqrt(n) > (1 + hysteresis) c, and is probed half as often from then on where it does not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from lora_spec.policy.policy_file import LiveRule, Load

Change = Literal["demoted", "promoted", "probe failed"]

_MOST_BACKOFF = 64


@dataclass
class Window:
    """Draft steps counted so far; positions are counted over the steps that drafted that far."""

    num_drafts: int = 0
    sum_tokens: int = 0
    sum_squared_tokens: int = 0
    sum_cost: float = 0.0
    num_drafted_per_pos: list[int] = field(default_factory=list)
    num_accepted_per_pos: list[int] = field(default_factory=list)

    def add(self, num_draft_tokens: int, num_accepted_tokens: int, cost: float) -> None:
        """Count one draft step; ``cost`` is T_d / T_0 at its load."""
        tokens = 1 + num_accepted_tokens
        self.num_drafts += 1
        self.sum_tokens += tokens
        self.sum_squared_tokens += tokens * tokens
        self.sum_cost += cost
        missing = num_draft_tokens - len(self.num_drafted_per_pos)
        self.num_drafted_per_pos += [0] * missing
        self.num_accepted_per_pos += [0] * missing
        for position in range(num_draft_tokens):
            self.num_drafted_per_pos[position] += 1
            self.num_accepted_per_pos[position] += position < num_accepted_tokens

    def margin(self, num_standard_errors: float) -> tuple[float, float]:
        """Return the least and the most that the mean tokens per draft step may be."""
        mean = self.sum_tokens / self.num_drafts
        variance = max(0.0, self.sum_squared_tokens / self.num_drafts - mean * mean)
        # All steps equal would pass for certainty: one step in n may still have gone the other way.
        spread = math.sqrt(max(variance, 1 / self.num_drafts) / self.num_drafts)
        return mean - num_standard_errors * spread, mean + num_standard_errors * spread

    @property
    def mean_cost(self) -> float:
        """Return the mean of T_d / T_0 over the draft steps."""
        return self.sum_cost / self.num_drafts

    def acceptance_lengths(self, deepest: int) -> list[float]:
        """Return E_0 to E_deepest; beyond what was drafted nothing is thought to be accepted."""
        lengths = [1.0]
        for position in range(deepest):
            drafted = self.num_drafted_per_pos[position] if position < len(self.num_drafted_per_pos) else 0
            accepted = self.num_accepted_per_pos[position] if drafted else 0
            lengths.append(lengths[-1] + (accepted / drafted if drafted else 0.0))
        return lengths


def best_depths(lengths: Sequence[float], loads: Sequence[Load], ceilings: Sequence[int]) -> tuple[int, ...]:
    """Return, at every load, the depth up to its ceiling with the most tokens per time, the shallowest of equals."""
    return tuple(
        max(range(ceiling + 1), key=lambda depth: (lengths[depth] / load.step_time_ratios[depth], -depth))
        for load, ceiling in zip(loads, ceilings, strict=True)
    )


class LiveAdapter:
    """One adapter under a policy; times are seconds of a clock that never goes back."""

    def __init__(self, depths: tuple[int, ...], loads: tuple[Load, ...], rule: LiveRule, now_s: float) -> None:
        self._policy_depths = depths
        self._loads = loads
        self._rule = rule
        self._depths = depths
        self._window = Window()
        self._changed_s = now_s - rule.min_dwell_s
        self._backoff = 1
        self._is_probing = False

    @property
    def is_demoted(self) -> bool:
        """Return whether live acceptance overrules the policy; a probe does not end that."""
        return self._depths != self._policy_depths

    def depth(self, load_index: int, now_s: float) -> int:
        """Return the depth in force at a load; a probe begins here once it is due."""
        if self.is_demoted and not self._is_probing and now_s >= self._next_probe_s:
            self._is_probing, self._window = True, Window()
        return (self._policy_depths if self._is_probing else self._depths)[load_index]

    @property
    def _next_probe_s(self) -> float:
        return self._changed_s + max(self._rule.min_dwell_s, self._rule.probe_interval_s * self._backoff)

    def observe(self, num_draft_tokens: int, num_accepted_tokens: int, load_index: int, now_s: float) -> Change | None:
        """Count one draft step and return the change that it leads to."""
        cost = self._loads[load_index].step_time_ratios[num_draft_tokens]
        self._window.add(num_draft_tokens, num_accepted_tokens, cost)
        if self._is_probing:
            return self._judge_probe(now_s) if self._window.num_drafts >= self._rule.probe_drafts else None
        if self._window.num_drafts < self._rule.window_drafts:
            return None
        return self._judge_window(now_s)

    def _judge_window(self, now_s: float) -> Change | None:
        window, self._window = self._window, Window()
        _, most = window.margin(self._rule.num_standard_errors)
        is_loss = most < (1 - self._rule.hysteresis) * window.mean_cost
        if not is_loss or now_s < self._changed_s + self._rule.min_dwell_s:
            return None
        lengths = window.acceptance_lengths(max(self._depths))
        depths = best_depths(lengths, self._loads, self._depths)
        if depths == self._depths:
            return None
        self._depths, self._changed_s = depths, now_s
        return "demoted"

    def _judge_probe(self, now_s: float) -> Change:
        window, self._window = self._window, Window()
        least, _ = window.margin(self._rule.num_standard_errors)
        self._is_probing, self._changed_s = False, now_s
        if least > (1 + self._rule.hysteresis) * window.mean_cost:
            self._depths, self._backoff = self._policy_depths, 1
            return "promoted"
        self._backoff = min(2 * self._backoff, _MOST_BACKOFF)
        return "probe failed"
