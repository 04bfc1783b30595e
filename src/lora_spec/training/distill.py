"""Distil a drafter on the target's own trajectories: same embeddings, a few layers, soft targets.

Targets are recomputed, once per run, and held in memory for the later epochs; nothing of them is stored.
"""

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from lora_spec.results import write_json_atomically
from lora_spec.training.soft_targets import CorpusVocabulary, SparseTargetCrossEntropy, top_k_targets


@dataclass(frozen=True)
class DistillSettings:
    """How to distil. Tokens are positions with a loss: outputs only, prompts are context."""

    num_epochs: int
    learning_rate: float
    batch_tokens: int
    num_top_targets: int
    num_sampled_tokens: int
    warmup_steps: int
    weight_decay: float
    seed: int
    save_every_steps: int = 200


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
    with torch.autocast("cpu", dtype=torch.bfloat16):
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


def learning_rate_at(step: int, num_steps: int, settings: DistillSettings) -> float:
    """Return the rate of a step: linear warm-up, then half a cosine down to a hundredth."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    done = (step - settings.warmup_steps) / max(1, num_steps - settings.warmup_steps)
    return settings.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def _order(num_batches: int, settings: DistillSettings) -> Iterator[int]:
    """Yield batch numbers, each epoch shuffled by its own seed, so that a resumed run sees the same order."""
    for epoch in range(settings.num_epochs):
        numbers = list(range(num_batches))
        random.Random(settings.seed + epoch).shuffle(numbers)
        yield from numbers


def _save_state(path: Path, drafter: Any, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write weights and moments as safetensors (a pickle would have to be trusted when read back)."""
    names = [name for name, p in drafter.named_parameters() if p.requires_grad]
    params = [p for p in drafter.parameters() if p.requires_grad]
    tensors = {f"weight/{name}": p.detach() for name, p in zip(names, params, strict=True)}
    for key in ("exp_avg", "exp_avg_sq"):
        tensors |= {f"{key}/{name}": optimizer.state[p][key] for name, p in zip(names, params, strict=True)}
    part = path.with_suffix(".part")
    save_file(tensors, part, metadata={"step": str(step)})
    part.replace(path)
    write_json_atomically(path.with_suffix(".json"), {"step": step})


def _load_state(path: Path, drafter: Any, optimizer: torch.optim.Optimizer) -> int:
    """Restore what :func:`_save_state` wrote and return the next step; 0 where nothing was written."""
    if not path.exists() or not path.with_suffix(".json").exists():
        return 0
    tensors = load_file(path)
    step = json.loads(path.with_suffix(".json").read_text())["step"]
    for name, param in drafter.named_parameters():
        if param.requires_grad:
            param.data.copy_(tensors[f"weight/{name}"])
            optimizer.state[param] = {
                "step": torch.tensor(float(step)),
                "exp_avg": tensors[f"exp_avg/{name}"],
                "exp_avg_sq": tensors[f"exp_avg_sq/{name}"],
            }
    return step


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
        Llama causal models; the drafter's embeddings are the target's and frozen.
    state_path
        Where weights, moments and step are kept; an interrupted run goes on from there.
    on_save
        Called with (step, curve) after each save, for a held-out evaluation and an early checkpoint.
    """
    batches = make_batches(trajectories, settings.batch_tokens)
    head = target.get_output_embeddings().weight.detach().to(torch.bfloat16)
    corpus = np.concatenate([tokens for tokens, _ in trajectories])
    vocabulary = CorpusVocabulary(head, corpus, num_sampled=settings.num_sampled_tokens, seed=settings.seed)
    soft = SoftTargets(target, vocabulary.head, settings.num_top_targets)
    params = [p for p in drafter.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        params, lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=settings.weight_decay
    )
    done = _load_state(state_path, drafter, optimizer)
    num_steps = settings.num_epochs * len(batches)
    curve: list[dict[str, Any]] = []
    window = _Window()
    for step, number in enumerate(_order(len(batches), settings)):
        if step < done:
            continue
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, num_steps, settings)
        window.add(*_step(drafter, batches[number], soft.of(number, batches[number]), vocabulary, optimizer))
        if (step + 1) % settings.save_every_steps == 0 or step + 1 == num_steps:
            _save_state(state_path, drafter, optimizer, step + 1)
            curve.append({"step": step + 1, "num_steps": num_steps, **window.close()})
            on_save(step + 1, curve)
    return curve


def _step(
    drafter: Any,
    batch: Batch,
    targets: tuple[torch.Tensor, torch.Tensor],
    vocabulary: CorpusVocabulary,
    optimizer: torch.optim.Optimizer,
) -> tuple[float, int, int]:
    hidden = _scored_hidden(drafter, batch)
    loss, num_agreeing = SparseTargetCrossEntropy.apply(hidden, *vocabulary.sampled_head(), *targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in drafter.parameters() if p.requires_grad], 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return float(loss.detach()), int(num_agreeing), int(batch.is_scored.sum())


class _Window:
    """Sums over the steps since the last save."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._loss, self._agreeing, self._positions, self._start = 0.0, 0, 0, time.monotonic()

    def add(self, loss: float, num_agreeing: int, num_positions: int) -> None:
        """Add one step."""
        self._loss += loss * num_positions
        self._agreeing += num_agreeing
        self._positions += num_positions

    def close(self) -> dict[str, Any]:
        """Return the window's means and begin a new one."""
        row = {
            "mean_loss": self._loss / self._positions,
            "train_agreement": self._agreeing / self._positions,
            "num_positions": self._positions,
            "positions_per_s": self._positions / (time.monotonic() - self._start),
        }
        self._reset()
        return row


def settings_to_dict(settings: DistillSettings) -> dict[str, Any]:
    """Return the settings as plain data for provenance."""
    return asdict(settings)
