"""Train a drafter from its recipe: read the shards, distil, follow the held-out acceptance, write the layers."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from lora_spec.engines.verify_steps import accepted_per_step
from lora_spec.errors import TrainingError
from lora_spec.records import AcceptanceCounts
from lora_spec.training.distill import DistillSettings, distil
from lora_spec.training.drafter import init_drafter, save_drafter_layers
from lora_spec.training.own_trajectories import HELDOUT_STEM, planned_shards
from lora_spec.training.quick import quick_autocast, quick_dtype
from lora_spec.training.trajectories import read_shard

CURVE_DEPTH = 3
"""Depth of the acceptance length that the learning curve shows."""

_DISTILLED = ("batch_tokens", "num_top_targets", "num_sampled_tokens")


def train_drafter(
    target_dir: Path,
    trajectories_dir: Path,
    *,
    layers: Sequence[int],
    training: Mapping[str, Any],
    state_dir: Path,
    output: Path,
    early_output: Path,
) -> list[dict[str, Any]]:
    """Write a drafter's layers, and those of its early checkpoint, and return its learning curve.

    Parameters
    ----------
    training
        The ``training`` block of a drafter in ``models.yaml``.
    state_dir
        Where weights, moments and the curve survive a kill.

    Raises
    ------
    TrainingError
        The folder lacks a shard that the recipe plans.
    """
    shards = planned_shards(training, trajectories_dir)
    heldout = [item for path in shards if path.name.startswith(HELDOUT_STEM) for item in read_shard(path)]
    trained = [item for path in shards if not path.name.startswith(HELDOUT_STEM) for item in read_shard(path)]
    torch.manual_seed(training["training_seed"])
    torch.set_num_threads(training["num_threads"])
    target = AutoModelForCausalLM.from_pretrained(target_dir, dtype=quick_dtype()).eval().requires_grad_(False)
    drafter = init_drafter(target_dir, layers=layers)
    state_dir.mkdir(parents=True, exist_ok=True)
    early = state_dir / "early_layers.safetensors"

    def follow(step: int, curve: list[dict[str, Any]]) -> None:
        curve[-1] |= held_out_acceptance(drafter, heldout)
        sys.stderr.write(f"{json.dumps(curve[-1])}\n")
        if step == training["early_step"]:
            save_drafter_layers(drafter, early, metadata={"step": str(step)}, storage="int8_rows")

    num_saves = training["early_step"] / training["save_every_steps"]
    if num_saves != int(num_saves):
        raise TrainingError(
            f"early_step {training['early_step']} is no checkpoint: make it a multiple of save_every_steps "
            f"{training['save_every_steps']}"
        )
    curve = distil(
        drafter,
        target,
        trained,
        settings=DistillSettings.of_training(training, **{key: training[key] for key in _DISTILLED}),
        state_path=state_dir / "state.safetensors",
        on_save=follow,
    )
    shutil.copyfile(early, early_output)
    save_drafter_layers(drafter, output, metadata={"num_epochs": str(training["num_epochs"])})
    return curve


@torch.no_grad()
def held_out_acceptance(drafter: Any, heldout: Sequence[tuple[np.ndarray, int]]) -> dict[str, float]:
    """Return top-1 agreement and the acceptance length at ``CURVE_DEPTH`` on greedy held-out trajectories.

    Tokens past an output's end count as not accepted: the curve is a little low, and never high.
    """
    counts, num_agreeing, num_tokens = AcceptanceCounts.zero(CURVE_DEPTH), 0, 0
    for token_ids, num_prompt_tokens in heldout:
        ids = torch.from_numpy(token_ids.astype(np.int64))
        with quick_autocast():
            logits = drafter(input_ids=ids[None], use_cache=False).logits[0]
        matches = (logits.argmax(-1)[num_prompt_tokens - 1 : -1] == ids[num_prompt_tokens:]).numpy()
        padded = np.concatenate([matches, np.zeros(CURVE_DEPTH, dtype=bool)])
        accepted = accepted_per_step(padded, len(matches), CURVE_DEPTH)
        counts += AcceptanceCounts.from_accepted_per_step(accepted, CURVE_DEPTH)
        num_agreeing, num_tokens = num_agreeing + int(matches.sum()), num_tokens + len(matches)
    return {
        "held_out_agreement": num_agreeing / num_tokens,
        "held_out_acceptance_length": counts.acceptance_length or 1.0,
    }
