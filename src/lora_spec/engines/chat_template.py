"""Messages under a tokenizer's chat template, as the engine in process and clients of a server send them."""

from collections.abc import Sequence
from typing import Any


def encode_chat(tokenizer: Any, messages: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the token ids of each message with the generation prompt."""
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
        )
        for message in messages
    ]
    return [tuple(tokenizer.encode(text, add_special_tokens=False)) for text in texts]
