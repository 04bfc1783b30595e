"""Adapters made without training: the zero control, scaled copies, and random updates of a known size."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lora_spec.adapter import inspect_adapter
from lora_spec.errors import TrainingInputError
from lora_spec.provenance import sha256_of_file
from lora_spec.training.adapter_files import CONFIG_FILE, WEIGHTS_FILE, config_json, lora_config, write_adapter
from lora_spec.training.recipe import AdapterRecipe, RandomRecipe, ScaledRecipe

if TYPE_CHECKING:
    import torch

_A, _B = ".lora_A.", ".lora_B."


def zero_adapter(target_dir: Path, row: AdapterRecipe, out_dir: Path, *, base_model_name: str) -> Path:
    """Write an adapter as PEFT begins training: A random by the row's seed, B zero, so B @ A is exactly zero.

    Raises
    ------
    TrainingInputError
        When the row is not a control.
    """
    import torch
    from peft import get_peft_model, get_peft_model_state_dict
    from transformers import AutoConfig, AutoModelForCausalLM

    if row.stratum != "control":
        raise TrainingInputError(f"adapter row '{row.name}' is '{row.stratum}', not a control: train it instead")
    torch.manual_seed(row.seed)
    config = lora_config(row)
    bare = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(target_dir), dtype=torch.float32)
    model = get_peft_model(bare, config)
    write_adapter(
        out_dir,
        tensors=get_peft_model_state_dict(model),
        config=config_json(config, base_model_name),
        recipe={"row": row.to_dict(), "license": row.license},
    )
    return out_dir


def scaled_adapter(parent_dir: Path, row: ScaledRecipe, out_dir: Path) -> Path:
    """Write a copy of an adapter whose update is ``row.scale`` times its parent's: B is scaled, A and config kept.

    Raises
    ------
    TrainingInputError
        When the parent's folder does not hold an adapter whose update is scale * B @ A, or bfloat16 does not hold that
        multiple of it.
    """
    parent = _tensors_of_parent(parent_dir, row)
    tensors = {name: tensor.float() * row.scale if _B in name else tensor for name, tensor in parent.items()}
    for name, tensor in tensors.items():
        stored = tensor.bfloat16()
        if not stored.isfinite().all() or (parent[name].any() and not stored.any()):
            raise TrainingInputError(
                f"adapter row '{row.name}': {row.scale:g} times {name} of '{row.parent}' is not held by bfloat16; "
                "choose a scale nearer to 1"
            )
    return _write_derived(parent_dir, row, out_dir, tensors)


def random_adapter(parent_dir: Path, row: RandomRecipe, out_dir: Path) -> Path:
    """Write a random update on its parent's modules, of its rank, scale and, per module, Frobenius norm.

    A and B are Gaussian by ``row.seed``, so no direction of the update is preferred; only its size is the parent's.

    Raises
    ------
    TrainingInputError
        As :func:`scaled_adapter`.
    """
    import torch

    parent = _tensors_of_parent(parent_dir, row)
    generator = torch.Generator().manual_seed(row.seed)
    tensors = {}
    for name_a in sorted(name for name in parent if _A in name):
        name_b = name_a.replace(_A, _B)
        a = torch.randn(parent[name_a].shape, generator=generator) / parent[name_a].shape[1] ** 0.5
        b = torch.randn(parent[name_b].shape, generator=generator)
        # A as it will be stored, so that its rounding does not move the norm.
        a = a.to(torch.bfloat16)
        factor = _norm_of_product(parent[name_b], parent[name_a]) / _norm_of_product(b, a)
        tensors |= {name_a: a, name_b: factor * b}
    return _write_derived(parent_dir, row, out_dir, tensors)


def _norm_of_product(b: "torch.Tensor", a: "torch.Tensor") -> float:
    """Return the Frobenius norm of B @ A from two rank x rank products: its square is trace(B^T B A A^T)."""
    a, b = a.double(), b.double()
    return ((b.T @ b) * (a @ a.T)).sum().clamp(min=0).sqrt().item()


def _tensors_of_parent(parent_dir: Path, row: ScaledRecipe | RandomRecipe) -> dict[str, "torch.Tensor"]:
    from safetensors.torch import load_file

    inspection = inspect_adapter(parent_dir)
    if inspection.status != "ok":
        raise TrainingInputError(
            f"adapter row '{row.name}': nothing can be derived from its parent '{row.parent}' in {parent_dir}: "
            f"{inspection.message}; make or mend the parent first"
        )
    tensors = load_file(parent_dir / WEIGHTS_FILE)
    if others := sorted(name for name in tensors if _A not in name and _B not in name):
        raise TrainingInputError(
            f"adapter row '{row.name}': its parent '{row.parent}' holds {others[0]}, which is no factor of a linear "
            "layer; derive from an adapter of linear layers alone"
        )
    return tensors


def _write_derived(
    parent_dir: Path, row: ScaledRecipe | RandomRecipe, out_dir: Path, tensors: dict[str, "torch.Tensor"]
) -> Path:
    write_adapter(
        out_dir,
        tensors=tensors,
        config=json.loads((parent_dir / CONFIG_FILE).read_text()),
        recipe={
            "row": row.to_dict(),
            "license": row.license,
            "parent_sha256": sha256_of_file(parent_dir / WEIGHTS_FILE),
        },
    )
    return out_dir
