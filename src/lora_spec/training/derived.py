"""Adapters made without training: the control whose update is exactly zero, and scaled copies."""

from pathlib import Path

from lora_spec.errors import TrainingInputError
from lora_spec.provenance import sha256_of_file
from lora_spec.training.adapter_files import WEIGHTS_FILE, lora_config, write_adapter
from lora_spec.training.recipe import AdapterRecipe


def zero_adapter(target_dir: Path, row: AdapterRecipe, out_dir: Path, *, base_model_name: str) -> Path:
    """Write an adapter as PEFT begins training: A random by the row's seed, B zero, so B @ A is exactly zero.

    Raises
    ------
    TrainingInputError
        When the row is not a control.
    """
    import torch
    from peft import get_peft_model, get_peft_model_state_dict
    from transformers import AutoConfig, LlamaForCausalLM

    if row.stratum != "control":
        raise TrainingInputError(f"adapter row '{row.name}' is '{row.stratum}', not a control: train it instead")
    torch.manual_seed(row.seed)
    config = lora_config(row)
    model = get_peft_model(LlamaForCausalLM(AutoConfig.from_pretrained(target_dir)), config)
    write_adapter(
        out_dir,
        tensors=get_peft_model_state_dict(model),
        config=config,
        base_model_name=base_model_name,
        recipe={"row": row.to_dict(), "license": row.license},
    )
    return out_dir


def scaled_adapter(parent_dir: Path, row: AdapterRecipe, out_dir: Path, *, base_model_name: str) -> Path:
    """Write a copy of a trained adapter whose update is ``row.scale`` times its parent's: B is scaled, A kept.

    Raises
    ------
    TrainingInputError
        When the row names no parent, or the parent's files are not there.
    """
    from safetensors.torch import load_file

    weights = parent_dir / WEIGHTS_FILE
    if row.parent is None or not weights.is_file():
        raise TrainingInputError(f"adapter row '{row.name}' scales parent '{row.parent}', but {weights} is not there")
    tensors = {
        name: tensor.float() * row.scale if ".lora_B." in name else tensor
        for name, tensor in load_file(weights).items()
    }
    write_adapter(
        out_dir,
        tensors=tensors,
        config=lora_config(row),
        base_model_name=base_model_name,
        recipe={"row": row.to_dict(), "license": row.license, "parent_sha256": sha256_of_file(weights)},
    )
    return out_dir
