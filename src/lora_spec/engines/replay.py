"""Exact greedy acceptance at every depth from one drafter pass over recorded trajectories, without an engine."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lora_spec.engines.base import Replayer, Trajectory
from lora_spec.errors import EngineError


class TransformersReplayer(Replayer):
    """A drafter in Hugging Face format, run by transformers.

    Parameters
    ----------
    drafter
        Folder of the drafter (config and safetensors).
    dtype
        Name of a torch dtype. Equality with an engine's counters is exact in float32; in bfloat16 near-ties of the
        drafter's two best tokens may fall differently.
    max_batch_tokens
        Padded tokens per forward pass; bounds the memory of the logits (tokens x vocabulary).
    num_threads
        Threads of torch, or None to leave them as they are.
    """

    def __init__(
        self, drafter: str, *, dtype: str = "float32", max_batch_tokens: int = 2048, num_threads: int | None = None
    ) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        if num_threads is not None:
            torch.set_num_threads(num_threads)
        try:
            model = AutoModelForCausalLM.from_pretrained(drafter, dtype=getattr(torch, dtype), local_files_only=True)
        except (OSError, ValueError, AttributeError) as err:
            raise EngineError(f"{drafter}: no drafter can be loaded as {dtype} ({err}); check the folder") from err
        self._model: Any = model.eval()
        self._max_batch_tokens = max_batch_tokens

    def match_drafts(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """Return the drafter's agreement with every output and overrun token."""
        sequences = [t.prompt_token_ids + t.output_token_ids + t.overrun_token_ids for t in trajectories]
        matches: list[np.ndarray] = [np.empty(0, dtype=bool)] * len(sequences)
        for batch in _plan_batches([len(sequence) for sequence in sequences], self._max_batch_tokens):
            predicted = self._predict([sequences[index] for index in batch])
            for index, row in zip(batch, predicted, strict=True):
                start = len(trajectories[index].prompt_token_ids)
                tokens = np.array(sequences[index])
                matches[index] = row[start - 1 : len(tokens) - 1] == tokens[start:]
        return matches

    def _predict(self, sequences: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """Return the drafter's first choice after every token of every sequence."""
        import torch

        longest = max(map(len, sequences))
        # Padding on the right is never attended to by the tokens before it, so no mask is needed.
        ids = torch.tensor([list(sequence) + [0] * (longest - len(sequence)) for sequence in sequences])
        with torch.inference_mode():
            logits = self._model(input_ids=ids, use_cache=False).logits
        return list(logits.argmax(dim=-1).numpy())


def _plan_batches(lengths: Sequence[int], max_batch_tokens: int) -> list[list[int]]:
    """Group indices by similar length so that padded batches stay within the token budget."""
    batches: list[list[int]] = []
    for index in np.argsort(lengths, kind="stable"):
        longest = lengths[index]
        if batches and longest * (len(batches[-1]) + 1) <= max_batch_tokens:
            batches[-1].append(int(index))
        else:
            batches.append([int(index)])
    return batches
