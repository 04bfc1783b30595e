"""A training loop that goes on where a killed run stopped: weights, moments and learning curve on disk."""

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save_file

MAX_GRADIENT_NORM = 1.0
_MOMENTS = ("exp_avg", "exp_avg_sq")

LossOfBatch = Callable[[int], tuple[torch.Tensor, int, int]]
"""Batch number -> (mean loss, positions where the model's first choice is right, positions with a loss)."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How many steps, how fast, and how often the state is kept."""

    num_epochs: int
    learning_rate: float
    warmup_steps: int
    weight_decay: float
    seed: int
    save_every_steps: int

    @classmethod
    def of_training(cls, training: Mapping[str, Any], **others: Any) -> Self:
        """Return the schedule that a ``training`` block of ``models.yaml`` states."""
        return cls(
            num_epochs=training["num_epochs"],
            learning_rate=training["learning_rate"],
            warmup_steps=training["num_warmup_steps"],
            weight_decay=training["weight_decay"],
            seed=training["training_seed"],
            save_every_steps=training["save_every_steps"],
            **others,
        )


def learning_rate_at(step: int, num_steps: int, schedule: Schedule) -> float:
    """Return the rate of a step: linear warm-up, then half a cosine down to a hundredth."""
    if step < schedule.warmup_steps:
        return schedule.learning_rate * (step + 1) / schedule.warmup_steps
    done = (step - schedule.warmup_steps) / max(1, num_steps - schedule.warmup_steps)
    return schedule.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def train_resumably(
    model: Any,
    num_batches: int,
    loss_of: LossOfBatch,
    *,
    schedule: Schedule,
    state_path: Path,
    on_save: Callable[[int, list[dict[str, Any]]], None],
) -> list[dict[str, Any]]:
    """Train a model in place with AdamW and return its learning curve, one row per ``save_every_steps``.

    Parameters
    ----------
    state_path
        Where weights, moments, step and curve are kept; an interrupted run goes on from there.
    on_save
        Called with (step, curve) before each save, for a held-out evaluation that is added to the last row.
    """
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        params, lr=schedule.learning_rate, betas=(0.9, 0.95), weight_decay=schedule.weight_decay
    )
    done, curve = _load_state(state_path, model, optimizer)
    num_steps = schedule.num_epochs * num_batches
    window = _Window()
    for step, number in enumerate(_order(num_batches, schedule)):
        if step < done:
            continue
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, num_steps, schedule)
        loss, num_right, num_positions = loss_of(number)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, MAX_GRADIENT_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        window.add(float(loss.detach()), num_right, num_positions)
        if (step + 1) % schedule.save_every_steps == 0 or step + 1 == num_steps:
            curve.append({"step": step + 1, "num_steps": num_steps, **window.close()})
            on_save(step + 1, curve)
            _save_state(state_path, model, optimizer, step + 1, curve)
            window = _Window()
    return curve


def _order(num_batches: int, schedule: Schedule) -> Iterator[int]:
    """Yield batch numbers, each epoch shuffled by its own seed, so that a resumed run sees the same order."""
    for epoch in range(schedule.num_epochs):
        numbers = list(range(num_batches))
        random.Random(schedule.seed + epoch).shuffle(numbers)
        yield from numbers


def _trained(model: Any) -> dict[str, torch.nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _save_state(
    path: Path, model: Any, optimizer: torch.optim.Optimizer, step: int, curve: list[dict[str, Any]]
) -> None:
    """Write weights and moments as safetensors (a pickle would have to be trusted when read back)."""
    tensors = {f"weight/{name}": parameter.detach() for name, parameter in _trained(model).items()}
    for key in _MOMENTS:
        tensors |= {f"{key}/{name}": optimizer.state[parameter][key] for name, parameter in _trained(model).items()}
    part = path.with_suffix(".part")
    # Step and curve travel with the weights: one file, so that a kill cannot part them.
    save_file(tensors, part, metadata={"step": str(step), "curve": json.dumps(curve)})
    part.replace(path)


def _load_state(path: Path, model: Any, optimizer: torch.optim.Optimizer) -> tuple[int, list[dict[str, Any]]]:
    """Restore what :func:`_save_state` wrote and return the next step and the curve; 0 where nothing was written."""
    if not path.exists():
        return 0, []
    tensors, told = load_file(path), _metadata(path)
    step = int(told["step"])
    for name, parameter in _trained(model).items():
        parameter.data.copy_(tensors[f"weight/{name}"])
        moments = {key: tensors[f"{key}/{name}"] for key in _MOMENTS}
        optimizer.state[parameter] = {"step": torch.tensor(float(step)), **moments}
    return step, json.loads(told["curve"])


def _metadata(path: Path) -> dict[str, str]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return file.metadata()


class _Window:
    """Sums over the steps since the last save."""

    def __init__(self) -> None:
        self._loss, self._right, self._positions, self._start = 0.0, 0, 0, time.monotonic()

    def add(self, loss: float, num_right: int, num_positions: int) -> None:
        """Add one step."""
        self._loss += loss * num_positions
        self._right += num_right
        self._positions += num_positions

    def close(self) -> dict[str, Any]:
        """Return the window's means."""
        return {
            "mean_loss": self._loss / self._positions,
            "train_agreement": self._right / self._positions,
            "num_positions": self._positions,
            "positions_per_s": self._positions / (time.monotonic() - self._start),
        }
