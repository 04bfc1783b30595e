"""Depths in force, step by step: from a watched file, overruled by live acceptance. Knows vLLM's words, not vLLM."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

from lora_spec.policy.live import LiveAdapter
from lora_spec.policy.policy_file import Policy
from lora_spec.policy.watched_file import WatchedPolicy

_LOG = logging.getLogger("vllm.lora_spec.policy")


class Counters(Protocol):
    """Where counts go; see :class:`lora_spec.policy.counters.AdapterCounters`."""

    def observe(self, adapter: str | None, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Count one draft step."""

    def show_depth(self, adapter: str | None, depth: int) -> None:
        """Show the depth in force."""

    def count_change(self, adapter: str | None, change: str) -> None:
        """Count a change that live acceptance made."""

    def count_policies(self, num_loaded: int, num_refused: int) -> None:
        """Count policy files."""


class DepthControl:
    """Which adapter drafts how deep in this step.

    Parameters
    ----------
    watched
        The policy file; None counts alone and leaves every request at the engine's depth.
    max_depth
        Drafted tokens per step that the engine was started for.
    clock_s
        Seconds that never go back.
    """

    def __init__(
        self,
        watched: WatchedPolicy | None,
        *,
        max_depth: int,
        counters: Counters,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watched = watched
        self._max_depth = max_depth
        self._counters = counters
        self._clock_s = clock_s
        self._now_s = clock_s()
        self._load_index = 0
        self._live: dict[str | None, LiveAdapter] = {}
        self._judged_by: Policy | None = None
        if watched is not None:  # a broken file is said at the start, not at the first request
            self._look_at_file(watched)

    @property
    def _policy(self) -> Policy | None:
        return None if self._watched is None else self._watched.policy

    def begin_step(self, batch_size: int) -> None:
        """Take in the clock, the load and, where it has changed, the file."""
        self._now_s = self._clock_s()
        if self._watched is not None:
            self._look_at_file(self._watched)
        if self._policy is not None:
            self._load_index = self._policy.load_index(batch_size)

    def _look_at_file(self, watched: WatchedPolicy) -> None:
        before = watched.num_loaded, watched.num_refused
        if watched.refresh(self._now_s):
            self._take_over(watched.policy)
        changed = watched.num_loaded - before[0], watched.num_refused - before[1]
        if any(changed):
            self._counters.count_policies(*changed)

    def _take_over(self, policy: Policy | None) -> None:
        """Forget what was learned of adapters to which the new policy says something else."""
        old, self._judged_by = self._judged_by, policy
        if old is None or policy is None or (old.loads, old.live) != (policy.loads, policy.live):
            self._live = {}
        else:
            self._live = {
                name: live for name, live in self._live.items() if old.depths_of(name) == policy.depths_of(name)
            }

    def depth(self, adapter: str | None) -> int:
        """Return the depth of an adapter's requests in this step; None stands for the base model."""
        policy = self._policy
        if policy is None:
            depth = self._max_depth
        elif policy.live is None:
            depth = policy.depths_of(adapter)[self._load_index]
        else:
            depth = self._live_of(adapter, policy).depth(self._load_index, self._now_s)
        self._counters.show_depth(adapter, depth)
        return depth

    def _live_of(self, adapter: str | None, policy: Policy) -> LiveAdapter:
        live = self._live.get(adapter)
        if live is None:
            assert policy.live is not None  # asked for by callers
            live = LiveAdapter(policy.depths_of(adapter), policy.loads, policy.live, self._now_s)
            self._live[adapter] = live
        return live

    def observe(self, adapter: str | None, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Count one verified draft step of one request."""
        self._counters.observe(adapter, num_draft_tokens, num_accepted_tokens)
        policy = self._policy
        # Drafts may still be under way that an earlier, deeper policy asked for: they are counted and not judged.
        if policy is None or policy.live is None or num_draft_tokens > policy.max_num_speculative_tokens:
            return
        live = self._live_of(adapter, policy)
        change = live.observe(num_draft_tokens, num_accepted_tokens, self._load_index, self._now_s)
        if change is not None:
            self._counters.count_change(adapter, change)
            _LOG.info("adapter %s: %s by live acceptance", "of the base" if adapter is None else adapter, change)
