"""Steps of an in-process vLLM engine: timing them, and leaving the drafter out of them. Knows no model."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from lora_spec.engines.base import DecodeTiming, PrefillTiming
from lora_spec.errors import EngineError

# Prefills of a batch share a step; one step per prompt is already far more than needed.
_MAX_RAMP_UP_STEPS = 500
# Between two prompts: the first step after one still holds what that one left behind.
_SETTLING_STEPS = 2


class StepTimer:
    """Times the decode steps of one running batch; every request must take part in every timed step."""

    def __init__(self, engine: Any, ids: Sequence[str]) -> None:
        self._engine = engine
        self._ids = ids
        self._lengths = dict.fromkeys(ids, 0)
        self._prompts = dict.fromkeys(ids, 0)

    def _advance(self) -> int:
        outputs = self._engine.step()
        for output in outputs:
            self._lengths[output.request_id] = len(output.outputs[0].token_ids)
            self._prompts[output.request_id] = len(output.prompt_token_ids)
        return len(outputs)

    def ramp_up(self) -> None:
        """Step until all requests decode together; the first full step may still hold a prefill."""
        num_full_steps = num_steps_run = 0
        while num_full_steps < 2:
            num_steps_run += 1
            if num_steps_run > _MAX_RAMP_UP_STEPS:
                raise EngineError(
                    f"{len(self._ids)} requests never decoded together: the cache is too small for this batch, or it "
                    "holds more adapters than max_loras; give kv_cache_gib, max_loras or lower the batch size"
                )
            num_full_steps = num_full_steps + 1 if self._advance() == len(self._ids) else 0

    def time(self, *, num_steps: int, num_warmup_steps: int) -> DecodeTiming:
        """Time steps after some that are not timed."""
        for _ in range(max(1, num_warmup_steps)):
            self._advance()
        step_ms, contexts = [], []
        for _ in range(num_steps):
            started = time.perf_counter()
            num_outputs = self._advance()
            step_ms.append(1e3 * (time.perf_counter() - started))
            contexts.append(sum(self._lengths.values()) + sum(self._prompts.values()))
            if num_outputs != len(self._ids):
                raise EngineError(
                    f"only {num_outputs} of {len(self._ids)} requests decoded in a timed step: the cache or the token "
                    "budget is too small for this batch; give kv_cache_gib or lower the batch size"
                )
        return DecodeTiming(tuple(step_ms), round(contexts[len(contexts) // 2] / len(self._ids)))

    def time_arrival(self, add: Callable[[], str], num_prefill_tokens: int) -> PrefillTiming:
        """Time the step that computes a prompt whole, beside all others; ``add`` sends it and returns its name."""
        for _ in range(_SETTLING_STEPS if self._ids else 0):
            self._advance()
        context = sum(self._lengths.values()) + sum(self._prompts.values())
        arrival = add()
        started = time.perf_counter()
        outputs = self._engine.step()
        step_ms = 1e3 * (time.perf_counter() - started)
        seen = {output.request_id for output in outputs}
        if seen != {*self._ids, arrival} or not all(o.finished for o in outputs if o.request_id == arrival):
            raise EngineError(
                f"a prompt of {num_prefill_tokens} tokens was not computed in one step beside {len(self._ids)} "
                "requests; shorten it, or give kv_cache_gib"
            )
        return PrefillTiming(step_ms, num_prefill_tokens, context)


def skip_drafter_at_depth_zero(drafter: Any) -> None:
    """Make a step at depth 0 cost no drafter pass."""
    propose: Callable[..., Any] = drafter.propose

    def propose_if_needed(num_speculative_tokens: int, *args: Any, **kwargs: Any) -> Any:
        if num_speculative_tokens:
            return propose(num_speculative_tokens, *args, **kwargs)
        import torch

        return torch.empty(kwargs["common_attn_metadata"].batch_size(), 0, dtype=torch.int64)

    drafter.propose = propose_if_needed
