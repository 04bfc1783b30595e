"""Greedy answers of a model in Hugging Face format, written by transformers without a serving engine.

Knows nothing of adapters. Imports torch when called.
"""

from collections.abc import Sequence
from typing import Any

from lora_spec.engines.base import Trajectory
from lora_spec.errors import EngineError

_BATCH = 16


def load_target(folder: str, dtype: str) -> tuple[Any, Any]:
    """Return a model, its weights frozen, and its tokenizer.

    Raises
    ------
    EngineError
        The folder holds none that this number format can be loaded in.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, AttributeError) as err:
        raise EngineError(f"{folder}: no target can be loaded as {dtype} ({err}); check the folder") from err
    return model.eval().requires_grad_(False), tokenizer


def _encode(tokenizer: Any, messages: Sequence[str]) -> list[list[int]]:
    turns = [[{"role": "user", "content": message}] for message in messages]
    texts = [tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True) for turn in turns]
    return [tokenizer.encode(text, add_special_tokens=False) for text in texts]


def write_greedily(model: Any, tokenizer: Any, messages: Sequence[str], max_tokens: int) -> list[Trajectory]:
    """Return the model's greedy answers to user messages under its chat template, the end token included."""
    prompts, texts = _encode(tokenizer, messages), []
    for start in range(0, len(prompts), _BATCH):
        batch = prompts[start : start + _BATCH]
        for prompt, output in zip(batch, _continue(model, batch, max_tokens, tokenizer.eos_token_id), strict=True):
            texts.append(Trajectory("", tuple(prompt), tuple(output), (), "length"))
    return texts


def _continue(model: Any, prompts: Sequence[list[int]], max_tokens: int, end_token: int | None) -> list[list[int]]:
    import torch

    longest = max(map(len, prompts))
    # Padded on the left, so that all texts go on at the same place.
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    with torch.inference_mode():
        written = model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=max_tokens,
            eos_token_id=end_token,
            pad_token_id=0 if end_token is None else end_token,
        )
    outputs = [row[longest:].tolist() for row in written]
    return [row[: row.index(end_token) + 1] if end_token in row else row for row in outputs]
