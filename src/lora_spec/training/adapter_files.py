"""How an adapter is written: PEFT's two files and a recipe beside them, all or nothing, byte for byte repeatable."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lora_spec.training.atomic_dir import atomic_dir
from lora_spec.training.recipe import AdapterRecipe

if TYPE_CHECKING:
    import torch

WEIGHTS_FILE = "adapter_model.safetensors"
CONFIG_FILE = "adapter_config.json"
RECIPE_FILE = "recipe.json"


def lora_config(row: AdapterRecipe) -> Any:
    """Return the PEFT config of a recipe: no dropout, no bias, B starts at zero."""
    from peft import LoraConfig

    return LoraConfig(
        task_type="CAUSAL_LM",
        r=row.rank,
        lora_alpha=row.alpha,
        use_rslora=row.use_rslora,
        target_modules=list(row.target_modules),
        lora_dropout=0.0,
        bias="none",
        init_lora_weights=True,
    )


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=2, sort_keys=True, allow_nan=False) + "\n")


def config_json(config: Any, base_model_name: str) -> dict[str, Any]:
    """Return a PEFT config as the JSON data that is written, the same in every process and on every machine."""
    # PEFT keeps names in sets, whose order differs from one process to the next; and it writes the local path
    # of the base, which means nothing elsewhere.
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in config.to_dict().items()}
    return {**plain, "base_model_name_or_path": base_model_name, "inference_mode": True, "revision": None}


def write_adapter(
    out_dir: Path,
    *,
    tensors: Mapping[str, "torch.Tensor"],
    config: Mapping[str, Any],
    recipe: Mapping[str, Any],
) -> None:
    """Write an adapter in PEFT's format with bf16 tensors; ``out_dir`` appears whole or not at all.

    ``config`` is what ``adapter_config.json`` holds.
    """
    import torch
    from safetensors.torch import save_file

    with atomic_dir(out_dir) as part:
        bf16 = {name: tensor.detach().to(torch.bfloat16).contiguous() for name, tensor in tensors.items()}
        save_file(bf16, part / WEIGHTS_FILE, metadata={"format": "pt"})
        _write_json(part / CONFIG_FILE, config)
        _write_json(part / RECIPE_FILE, recipe)
