"""Pairs as padded token batches in the target's chat format, with the loss on the answer alone."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from lora_spec.errors import TrainingError
from lora_spec.training.domains import Example

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class EncodedPair:
    """Token ids of prompt and answer; the answer starts at ``num_prompt_tokens``."""

    token_ids: tuple[int, ...]
    num_prompt_tokens: int


@dataclass(frozen=True)
class Batch:
    """Right-padded tokens ``(batch, length)`` and the places where the next token is part of an answer.

    ``rows`` and ``columns`` ``(num_answer_tokens,)`` index the hidden state that predicts ``labels``.
    """

    input_ids: "torch.Tensor"
    attention_mask: "torch.Tensor"
    rows: "torch.Tensor"
    columns: "torch.Tensor"
    labels: "torch.Tensor"

    def to(self, device: "torch.device") -> "Batch":
        """Return the batch on a device; itself where it is there already."""
        return Batch(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


def encode_pair(example: Example, *, tokenizer: Any, max_tokens: int) -> EncodedPair:
    """Return a pair's tokens, the answer cut at ``max_tokens`` in all; a cut answer has no end-of-turn token.

    Raises
    ------
    TrainingError
        When the prompt alone fills ``max_tokens``.
    """
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": example.prompt}], tokenize=False, add_generation_prompt=True
    )
    prompt = tokenizer.encode(text, add_special_tokens=False)
    if len(prompt) >= max_tokens:
        raise TrainingError(
            f"prompt {example.prompt[:60]!r}... has {len(prompt)} tokens and leaves no room for an answer "
            f"within max_tokens={max_tokens}: raise max_tokens"
        )
    answer = tokenizer.encode(example.answer, add_special_tokens=False)
    if example.is_complete:
        answer.append(tokenizer.eos_token_id)
    return EncodedPair(tuple((prompt + answer)[:max_tokens]), len(prompt))


def make_batch(pairs: Sequence[EncodedPair], *, pad_token_id: int) -> Batch:
    """Return some pairs as one right-padded batch."""
    import torch

    width = max(len(pair.token_ids) for pair in pairs)
    padded = [[*pair.token_ids, *[pad_token_id] * (width - len(pair.token_ids))] for pair in pairs]
    mask = [[1] * len(pair.token_ids) + [0] * (width - len(pair.token_ids)) for pair in pairs]
    places = [
        (row, column)
        for row, pair in enumerate(pairs)
        for column in range(pair.num_prompt_tokens - 1, len(pair.token_ids) - 1)
    ]
    rows, columns = torch.tensor(places).T
    input_ids = torch.tensor(padded)
    return Batch(input_ids, torch.tensor(mask), rows, columns, input_ids[rows, columns + 1])


def shuffled_batches(pairs: Sequence[EncodedPair], *, batch_size: int, seed: int, pad_token_id: int) -> Iterator[Batch]:
    """Yield each pair once, in an order that the seed decides."""
    order = list(range(len(pairs)))
    random.Random(seed).shuffle(order)
    for start in range(0, len(order), batch_size):
        yield make_batch([pairs[index] for index in order[start : start + batch_size]], pad_token_id=pad_token_id)
