"""How vLLM is told to draft with a model, and to let our scheduler say how deep; imports no other room."""

from typing import Any


def draft_model_config(drafter: str, num_speculative_tokens: int) -> dict[str, Any]:
    """Return vLLM's ``speculative_config``."""
    return {"method": "draft_model", "model": drafter, "num_speculative_tokens": num_speculative_tokens}


def depth_scheduler(*, is_async: bool) -> str:
    """Return the class of our scheduler that goes with vLLM's kind of scheduling."""
    return "lora_spec.policy.vllm_scheduler." + ("DepthAsyncScheduler" if is_async else "DepthScheduler")
