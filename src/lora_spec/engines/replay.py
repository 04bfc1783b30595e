"""A model's first choices along recorded trajectories, from one forward pass over each, without an engine.

Of a drafter they give exact greedy acceptance at every depth; of an adapted target, what it would have said there.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lora_spec.engines.base import MatchReplayer, Trajectory
from lora_spec.errors import EngineError


class TransformersReplayer(MatchReplayer):
    """A drafter (or a target) in Hugging Face format, run by transformers.

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

    def reload_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Put other weights into the model: (name, tensor), as in its checkpoint; those not named stay."""
        self._model.load_state_dict(dict(weights), strict=False)

    def first_choices(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """Return, per trajectory, the token that the model ranks first at every output and overrun position."""
        sequences = [t.prompt_token_ids + t.output_token_ids + t.overrun_token_ids for t in trajectories]
        found: list[np.ndarray] = [np.empty(0, dtype=int)] * len(sequences)
        for batch in _plan_batches([len(sequence) for sequence in sequences], self._max_batch_tokens):
            for index, row in zip(batch, self._predict([sequences[index] for index in batch]), strict=True):
                found[index] = row[len(trajectories[index].prompt_token_ids) - 1 : len(sequences[index]) - 1]
        return found

    def _predict(self, sequences: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """Return the model's first choice after every token of every sequence."""
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
