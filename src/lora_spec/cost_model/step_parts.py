"""How often each part of the work occurs in an engine step: the one place that knows what a step is made of."""

from collections.abc import Sequence

STEP_PART_NAMES = (
    "step_ms",
    "token_ms",
    "context_token_ms",
    "speculate_ms",
    "draft_pass_ms",
    "draft_token_ms",
    "idle_draft_ms",
    "idle_draft_token_ms",
    "prefill_ms",
    "prefill_token_ms",
    "draft_prefill_token_ms",
    "lora_ms",
    "lora_token_ms",
    "lora_prefill_token_ms",
)


def step_parts(
    depths: Sequence[int], num_prefill_tokens: int, num_context_tokens: int, *, has_drafter: bool, has_lora: bool
) -> tuple[float, ...]:
    """Return the count of every part of :data:`STEP_PART_NAMES`; a step's time is the sum of count times part.

    The target reads its weights once (step) and works for the K + 1 tokens of each decoding request (token), for the
    cache that these look at (context_token) and for the prompts that are computed beside them (prefill). To speculate
    at all costs something, and each of max(K) passes of the drafter reads its weights and works for every request. At
    depth 0 a drafter that is there still runs one pass, so that its cache keeps up (idle_draft): the tax. It also
    reads every prompt (draft_prefill). LoRA adds work to the step and to each token.
    """
    num_requests, deepest = len(depths), max(depths, default=0)
    num_tokens = sum(depths) + num_requests
    is_prefilling = num_prefill_tokens > 0
    is_idle = has_drafter and not deepest
    return (
        1,
        num_tokens,
        num_context_tokens,
        deepest > 0,
        deepest,
        deepest * num_requests,
        is_idle,
        is_idle * num_requests,
        is_prefilling,
        num_prefill_tokens,
        has_drafter * num_prefill_tokens,
        has_lora,
        has_lora * num_tokens,
        has_lora * num_prefill_tokens,
    )
