"""Schedulers for vLLM whose speculation depth can be set per adapter while the engine runs.

vLLM drafts the same number of tokens for every request of a step. Here each request has its own depth: the step drafts
as deep as its deepest request needs, and every other request verifies only its own share of the drafted tokens. The
output of greedy decoding does not depend on the depth, so only speed changes.

Pass ``scheduler_cls="lora_spec.policy.vllm_scheduler.DepthAsyncScheduler"`` (or ``DepthScheduler`` where async
scheduling is off). The scheduler interface of vLLM is not public: other versions are refused rather than tried.
"""

from collections.abc import Mapping
from typing import Any

import vllm
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

SUPPORTED_VLLM_VERSIONS = ("0.32.0",)

if vllm.__version__ not in SUPPORTED_VLLM_VERSIONS:
    raise RuntimeError(
        f"lora_spec.policy.vllm_scheduler is tested with vLLM {', '.join(SUPPORTED_VLLM_VERSIONS)}, found "
        f"{vllm.__version__}: install a tested version or start the engine without scheduler_cls"
    )


class _DepthTable:
    """Depths in force: one for all, and exceptions by adapter name; None stands for the configured maximum."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._default_depth: int | None = None
        self._depth_by_adapter: dict[str, int] = {}

    def set_speculation_depth(
        self, default_depth: int | None, depth_by_adapter: Mapping[str, int] | None = None
    ) -> None:
        """Set the depth of all requests from the next scheduled step on.

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
        self._default_depth = default_depth
        self._depth_by_adapter = exceptions

    def speculation_depth(self, request: Any) -> int:
        """Return the depth in force for one vLLM request."""
        default = self.num_spec_tokens if self._default_depth is None else self._default_depth
        return (
            default if request.lora_request is None else self._depth_by_adapter.get(request.lora_request.name, default)
        )

    def _limit_step(self, scheduler_output: Any) -> dict[str, int]:
        """Draft no deeper than this step's requests can use; return the depth of each."""
        depths = {
            request_id: self.speculation_depth(self.requests[request_id])
            for request_id in scheduler_output.num_scheduled_tokens
        }
        # An upstream rule (depth by batch size) may already have asked for less.
        scheduler_output.num_spec_tokens_to_schedule = min(
            scheduler_output.num_spec_tokens_to_schedule, max(depths.values(), default=0)
        )
        return depths

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        """Accept the worker's drafts, each request no more than its depth (not called under async scheduling)."""
        super().update_draft_token_ids(draft_token_ids)
        for request_id in draft_token_ids.req_ids:
            request = self.requests.get(request_id)
            if request is not None:
                request.spec_token_ids = request.spec_token_ids[: self.speculation_depth(request)]


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
