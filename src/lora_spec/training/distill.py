"""Distil a drafter on the target's own trajectories: same embeddings, a few layers, soft targets.

Targets are recomputed, once per run, and held in memory for the later epochs; nothing of them is stored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lora_spec.training.quick import quick_autocast, quick_dtype
from lora_spec.training.resumable import Schedule, train_resumably
from lora_spec.training.soft_targets import CorpusVocabulary, SparseTargetCrossEntropy, top_k_targets


@dataclass(frozen=True, kw_only=True)
class DistillSettings(Schedule):
    """How to distil. Tokens are positions with a loss: outputs only, prompts are context."""

    batch_tokens: int
    num_top_targets: int
    num_sampled_tokens: int


@dataclass(frozen=True)
class Batch:
    """Trajectories of similar length, padded on the right, where causal attention never looks."""

    token_ids: torch.Tensor
    is_scored: torch.Tensor


def make_batches(trajectories: Sequence[tuple[np.ndarray, int]], batch_tokens: int) -> list[Batch]:
    """Sort by length, cut into batches of about ``batch_tokens`` padded tokens.

    A position is scored if the token after it is one that the target wrote.
    """
    ordered = sorted((item for item in trajectories if len(item[0]) > item[1]), key=lambda item: len(item[0]))
    batches, start = [], 0
    while start < len(ordered):
        width = len(ordered[start][0])
        size = max(1, batch_tokens // max(width, 1))
        batches.append(_pad(ordered[start : start + size]))
        start += size
    return batches


def _pad(rows: Sequence[tuple[np.ndarray, int]]) -> Batch:
    width = max(len(tokens) for tokens, _ in rows)
    token_ids = torch.zeros(len(rows), width, dtype=torch.long)
    is_scored = torch.zeros(len(rows), width, dtype=torch.bool)
    for row, (tokens, num_prompt_tokens) in enumerate(rows):
        token_ids[row, : len(tokens)] = torch.from_numpy(tokens.astype(np.int64))
        is_scored[row, num_prompt_tokens - 1 : len(tokens) - 1] = True
    return Batch(token_ids, is_scored)


def _scored_hidden(model: Any, batch: Batch) -> torch.Tensor:
    with quick_autocast():
        return model.model(input_ids=batch.token_ids, use_cache=False).last_hidden_state[batch.is_scored]


class SoftTargets:
    """The target's top tokens per scored position, computed when first asked for and then kept."""

    def __init__(self, target: Any, head: torch.Tensor, num_top_targets: int) -> None:
        self._target, self._head, self._k = target, head, num_top_targets
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def of(self, index: int, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (token_ids, probs), each (num_scored_positions, k), of batch number ``index``."""
        if index not in self._kept:
            with torch.no_grad():
                found = top_k_targets(_scored_hidden(self._target, batch), self._head, self._k)
            self._kept[index] = (found[0].to(torch.int32), found[1].to(torch.float16))
        token_ids, probs = self._kept[index]
        return token_ids.long(), probs.float()


def distil(
    drafter: Any,
    target: Any,
    trajectories: Sequence[tuple[np.ndarray, int]],
    *,
    settings: DistillSettings,
    state_path: Path,
    on_save: Callable[[int, list[dict[str, Any]]], None],
) -> list[dict[str, Any]]:
    """Train the drafter in place and return the learning curve, one row per ``save_every_steps``.

    Parameters
    ----------
    drafter, target
        Causal models of one family; the drafter's embeddings are the target's and frozen.
    state_path, on_save
        As of :func:`~lora_spec.training.resumable.train_resumably`.
    """
    batches = make_batches(trajectories, settings.batch_tokens)
    head = target.get_output_embeddings().weight.detach().to(quick_dtype())
    corpus = np.concatenate([tokens for tokens, _ in trajectories])
    vocabulary = CorpusVocabulary(head, corpus, num_sampled=settings.num_sampled_tokens, seed=settings.seed)
    soft = SoftTargets(target, vocabulary.head, settings.num_top_targets)

    def loss_of(number: int) -> tuple[torch.Tensor, int, int]:
        batch = batches[number]
        hidden = _scored_hidden(drafter, batch)
        loss, num_agreeing = SparseTargetCrossEntropy.apply(hidden, *vocabulary.sampled_head(), *soft.of(number, batch))
        return loss, int(num_agreeing), int(batch.is_scored.sum())

    return train_resumably(drafter, len(batches), loss_of, schedule=settings, state_path=state_path, on_save=on_save)
