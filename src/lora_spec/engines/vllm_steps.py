"""Steps of an in-process vLLM engine: timing them, and leaving the drafter out of them. Knows no model."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from lora_spec.engines.base import DecodeTiming
from lora_spec.errors import EngineError

# Prefills of a batch share a step; one step per prompt is already far more than needed.
_MAX_RAMP_UP_STEPS = 500


def time_steps(engine: Any, ids: Sequence[str], *, num_steps: int, num_warmup_steps: int) -> DecodeTiming:
    """Step until every request has decoded ``num_warmup_steps`` times, then time the steps."""
    lengths = dict.fromkeys(ids, 0)
    prompts = dict.fromkeys(ids, 0)

    def advance() -> int:
        outputs = engine.step()
        for output in outputs:
            lengths[output.request_id] = len(output.outputs[0].token_ids)
            prompts[output.request_id] = len(output.prompt_token_ids)
        return len(outputs)

    num_full_steps = num_steps_run = 0
    while num_full_steps <= num_warmup_steps:
        num_steps_run += 1
        if num_steps_run > _MAX_RAMP_UP_STEPS + num_warmup_steps:
            raise EngineError(
                f"{len(ids)} requests never decoded together: the cache is too small for this batch, or it holds more "
                "adapters than max_loras; give kv_cache_gib, max_loras or lower the batch size"
            )
        # The first full step may still hold a prefill; those after it are pure decoding.
        num_full_steps = num_full_steps + 1 if advance() == len(ids) else 0
    step_ms, contexts = [], []
    for _ in range(num_steps):
        started = time.perf_counter()
        num_outputs = advance()
        step_ms.append(1e3 * (time.perf_counter() - started))
        contexts.append(sum(lengths.values()) + sum(prompts.values()))
        if num_outputs != len(ids):
            raise EngineError(
                f"only {num_outputs} of {len(ids)} requests decoded in a timed step: the cache or the token budget is "
                "too small for this batch; give kv_cache_gib or lower the batch size"
            )
    return DecodeTiming(tuple(step_ms), round(contexts[len(contexts) // 2] / len(ids)))


def skip_drafter_at_depth_zero(drafter: Any) -> None:
    """Make a step at depth 0 cost no drafter pass."""
    propose: Callable[..., Any] = drafter.propose

    def propose_if_needed(num_speculative_tokens: int, *args: Any, **kwargs: Any) -> Any:
        if num_speculative_tokens:
            return propose(num_speculative_tokens, *args, **kwargs)
        import torch

        return torch.empty(kwargs["common_attn_metadata"].batch_size(), 0, dtype=torch.int64)

    drafter.propose = propose_if_needed
