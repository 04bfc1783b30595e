"""Prompts of an exact length for timing."""

from lora_spec.engines import Engine
from lora_spec.measurement.acceptance import Prompt
from lora_spec.training.chat_prompts import chat_prompts


def timed_prompts(engine: Engine, num_prompts: int, num_tokens: int) -> list[Prompt]:
    """Return chat prompts repeated and cut to one length, so that all cells see the same context."""
    encoded = engine.encode_chat(chat_prompts(num_prompts, seed=0, held_out=True))
    repeated = (tokens * (num_tokens // len(tokens) + 1) for tokens in encoded)
    return [Prompt(f"timed-{index}", tokens[:num_tokens]) for index, tokens in enumerate(repeated)]
