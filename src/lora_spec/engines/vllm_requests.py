"""Between our requests and completions and vLLM's. Imports no vLLM."""

from typing import Any

from lora_spec.engines.base import Completion, GenerationRequest


def endless(request: GenerationRequest, max_tokens: int) -> GenerationRequest:
    """Return the request without an end of its own before so many tokens."""
    return GenerationRequest(request.request_id, request.prompt_token_ids, max_tokens, request.adapter, ignore_eos=True)


def completion_of(request: GenerationRequest, output: Any) -> Completion:
    """Translate vLLM's request output."""
    first = output.outputs[0]
    metrics = first.spec_decode_metrics
    return Completion(
        request_id=request.request_id,
        num_prompt_tokens=len(output.prompt_token_ids),
        output_token_ids=tuple(first.token_ids),
        finish_reason=str(first.finish_reason),
        accepted_per_step=tuple(metrics.per_step_accepted) if metrics else (),
        drafted_per_step=tuple(metrics.per_step_drafted) if metrics else (),
        e2el_ms=_e2el_ms(output.metrics),
    )


def _e2el_ms(stats: Any) -> float | None:
    """Return arrival to last token from vLLM's request statistics."""
    # Arrival is on the wall clock; prefill and decoding are on the monotonic one, so the two are never mixed.
    if stats is None or not stats.last_token_ts:
        return None
    return 1e3 * (stats.last_token_ts - stats.queued_ts)
