"""Schedulers for vLLM that speculate as deep as a policy file says for each adapter, while the engine runs.

vLLM drafts the same number of tokens for every request of a step. Here each request has its own depth: the step drafts
as deep as its deepest request needs, and every other request verifies only its own share of the drafted tokens. The
output of greedy decoding does not depend on the depth, so only speed changes.

Pass ``--scheduler-cls lora_spec.policy.vllm_scheduler.DepthAsyncScheduler`` (or ``DepthScheduler`` where async
scheduling is off, as on CPUs) and ``--additional-config '{"lora_spec": {"policy": "policy.json"}}'``
(:mod:`lora_spec.policy.options`). The scheduler interface of vLLM is not public: other versions are refused, not tried.
"""

import os
from collections.abc import Mapping
from typing import Any

import vllm
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from lora_spec.policy.adapter_cache import AdapterCache
from lora_spec.policy.control import DepthControl
from lora_spec.policy.counters import AdapterCounters, open_port
from lora_spec.policy.options import Options, read_options
from lora_spec.policy.watched_file import WatchedPolicy

SUPPORTED_VLLM_VERSIONS = ("0.32.0",)

if vllm.__version__ not in SUPPORTED_VLLM_VERSIONS:
    raise RuntimeError(
        f"lora_spec.policy.vllm_scheduler is tested with vLLM {', '.join(SUPPORTED_VLLM_VERSIONS)}, found "
        f"{vllm.__version__}: install a tested version or start the engine without scheduler_cls"
    )


class _DepthTable:
    """Depths in force: set by hand, one for all and exceptions by adapter name; else what the policy file says."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._by_hand: tuple[int | None, dict[str, int]] | None = None
        options = read_options(self.vllm_config.additional_config, os.environ)
        self._counters = AdapterCounters()
        self._control = _control_of(options, self.num_spec_tokens, self._counters)
        self._cache = _cache_of(options, self.vllm_config.lora_config)

    def set_speculation_depth(
        self, default_depth: int | None, depth_by_adapter: Mapping[str, int] | None = None
    ) -> None:
        """Set the depth of all requests from the next scheduled step on, in place of any policy file.

        Parameters
        ----------
        default_depth
            Drafted tokens per step for requests without an entry of their own, base model included; None restores
            the maximum that the engine was started with.
        depth_by_adapter
            Exceptions by LoRA name. Replaces the former exceptions.

        Raises
        ------
        ValueError
            A depth is negative or beyond the maximum of the engine.
        """
        exceptions = dict(depth_by_adapter or {})
        for depth in (*exceptions.values(), *(() if default_depth is None else (default_depth,))):
            if not 0 <= depth <= self.num_spec_tokens:
                raise ValueError(
                    f"speculation depth {depth} is outside 0..{self.num_spec_tokens}; "
                    "start the engine with a larger num_speculative_tokens or ask for less"
                )
        self._by_hand = default_depth, exceptions

    def speculation_depth(self, request: Any) -> int:
        """Return the depth in force for one vLLM request."""
        adapter = None if request.lora_request is None else request.lora_request.name
        if self._by_hand is None:
            return self._control.depth(adapter)
        default_depth, exceptions = self._by_hand
        default = self.num_spec_tokens if default_depth is None else default_depth
        return default if adapter is None else exceptions.get(adapter, default)

    def _limit_step(self, scheduler_output: Any) -> dict[str, int]:
        """Draft no deeper than this step's requests can use; return the depth of each."""
        self._control.begin_step(len(scheduler_output.num_scheduled_tokens))
        self._count_loads(scheduler_output)
        depths = {
            request_id: self.speculation_depth(self.requests[request_id])
            for request_id in scheduler_output.num_scheduled_tokens
        }
        # An upstream rule (depth by batch size) may already have asked for less.
        scheduler_output.num_spec_tokens_to_schedule = min(
            scheduler_output.num_spec_tokens_to_schedule, max(depths.values(), default=0)
        )
        return depths

    def _count_loads(self, scheduler_output: Any) -> None:
        if self._cache is None:
            return
        requests = (self.requests[request_id] for request_id in scheduler_output.num_scheduled_tokens)
        adapters = {request.lora_request.name for request in requests if request.lora_request is not None}
        for adapter, kind in self._cache.begin_step(adapters).items():
            self._counters.count_load(adapter, kind)

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        """Accept the worker's drafts, each request no more than its depth (not called under async scheduling)."""
        super().update_draft_token_ids(draft_token_ids)
        for request_id in draft_token_ids.req_ids:
            request = self.requests.get(request_id)
            if request is not None:
                request.spec_token_ids = request.spec_token_ids[: self.speculation_depth(request)]

    def make_spec_decoding_stats(
        self,
        spec_decoding_stats: Any,
        num_draft_tokens: int,
        num_accepted_tokens: int,
        num_invalid_spec_tokens: dict[str, int] | None,
        request_id: str,
    ) -> Any:
        """Count a request's draft step as vLLM does, and also by its adapter."""
        # Drafts that a grammar forbade were never for the target to accept: vLLM leaves them out of its counts.
        num_real = num_draft_tokens - (num_invalid_spec_tokens or {}).get(request_id, 0)
        request = self.requests.get(request_id)
        if num_real > 0 and request is not None:
            adapter = None if request.lora_request is None else request.lora_request.name
            self._control.observe(adapter, num_real, num_accepted_tokens)
        return super().make_spec_decoding_stats(
            spec_decoding_stats, num_draft_tokens, num_accepted_tokens, num_invalid_spec_tokens, request_id
        )


def _control_of(options: Options, max_depth: int, counters: AdapterCounters) -> DepthControl:
    """Return the control that ``--additional-config`` asks for; see :mod:`lora_spec.policy.options`."""
    watched = None
    if options.policy is not None:
        watched = WatchedPolicy(
            options.policy, max_depth=max_depth, known_adapters=options.adapters, poll_s=options.poll_s
        )
    if options.metrics_port is not None:
        open_port(options.metrics_port)
    return DepthControl(watched, max_depth=max_depth, counters=counters)


def _cache_of(options: Options, lora_config: Any) -> AdapterCache | None:
    """Return the mirror of the worker's caches; the server loads the adapters that it was told of in their order."""
    if lora_config is None:
        return None
    return AdapterCache(
        max_loras=lora_config.max_loras,
        max_cpu_loras=lora_config.max_cpu_loras or lora_config.max_loras,
        preloaded=sorted(options.adapters or ()),
    )


class DepthAsyncScheduler(_DepthTable, AsyncScheduler):
    """Async scheduling: the placeholders set here say how many drafted tokens the next step verifies."""

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        depths = self._limit_step(scheduler_output)
        super()._update_after_schedule(scheduler_output)
        for request_id, depth in depths.items():
            request = self.requests[request_id]
            if not request.is_prefill_chunk:
                request.spec_token_ids = [-1] * min(depth, scheduler_output.num_spec_tokens_to_schedule)


class DepthScheduler(_DepthTable, Scheduler):
    """Synchronous scheduling: drafted tokens come back from the worker and are cut to the request's depth."""

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        self._limit_step(scheduler_output)
        super()._update_after_schedule(scheduler_output)
