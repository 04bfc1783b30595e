"""Makes the adapter of any row of the pool: trained on its domain, derived from a parent, or changing nothing."""

from pathlib import Path
from typing import Any

from lora_spec.errors import TrainingError
from lora_spec.training.derived import random_adapter, scaled_adapter, zero_adapter
from lora_spec.training.domains import find_domain
from lora_spec.training.lora import train_lora
from lora_spec.training.own_answers import OwnAnswers, load_own_answers
from lora_spec.training.quick import Device
from lora_spec.training.recipe import AdapterRecipe, RandomRecipe, Recipe, ScaledRecipe

_DERIVED: dict[type[Recipe], Any] = {ScaledRecipe: scaled_adapter, RandomRecipe: random_adapter}


def make_adapter(
    target_dir: Path,
    row: Recipe,
    out_dir: Path,
    *,
    base_model_name: str,
    answers_dir: Path | None,
    num_threads: int,
    parent_dir: Path | None = None,
    device: Device = "cpu",
) -> Path:
    """Write the adapter of one row to ``out_dir`` and return it.

    Parameters
    ----------
    answers_dir
        Folder of trajectory shards, opened only where the row's domain rewrites the target's own answers.
    parent_dir
        Folder of the adapter that a scaled or random row names as its parent; others ignore it.
    device
        Where an adapter is trained; what is derived or changes nothing is computed on the CPU.

    Raises
    ------
    TrainingError
        What :func:`~lora_spec.training.lora.train_lora` raises, or when the shards or the parent are missing.
    """
    if derive := _DERIVED.get(type(row)):
        if parent_dir is None:
            raise TrainingError(f"adapter '{row.name}' is derived from another: pass the folder of its parent")
        return derive(parent_dir, row, out_dir)
    if row.stratum == "control":
        return zero_adapter(target_dir, row, out_dir, base_model_name=base_model_name)
    trained = train_lora(
        target_dir,
        row,
        out_dir,
        base_model_name=base_model_name,
        own_answers=_own_answers_for(row, target_dir, answers_dir),
        num_threads=num_threads,
        device=device,
    )
    return trained.out_dir


def _own_answers_for(row: AdapterRecipe, target_dir: Path, answers_dir: Path | None) -> OwnAnswers:
    if not find_domain(row.domain).needs_own_answers:
        return OwnAnswers()
    if answers_dir is None:
        raise TrainingError(
            f"adapter '{row.name}': domain '{row.domain}' rewrites the target's own answers; "
            "pass the folder of its trajectories"
        )
    from transformers import AutoTokenizer

    return load_own_answers(answers_dir, tokenizer=AutoTokenizer.from_pretrained(target_dir))
