"""Copies of an adapter at other ranks, to time how long they take to load. What they say means nothing."""

import json
from pathlib import Path

from lora_spec.adapter import inspect_adapter
from lora_spec.errors import TrainingInputError
from lora_spec.training.adapter_files import CONFIG_FILE, WEIGHTS_FILE, write_adapter


def copy_at_rank(parent_dir: Path, lora_rank: int, out_dir: Path) -> Path:
    """Write an adapter on its parent's modules with the first ``lora_rank`` directions of each, or zeros beyond them.

    Raises
    ------
    TrainingInputError
        The parent's folder does not hold an adapter whose update is scale * B @ A.
    """
    import torch
    from safetensors.torch import load_file

    inspection = inspect_adapter(parent_dir)
    if inspection.status != "ok":
        raise TrainingInputError(f"{parent_dir}: cannot be copied at another rank: {inspection.message}; mend it first")
    tensors = {}
    for name, tensor in load_file(parent_dir / WEIGHTS_FILE).items():
        axis = 0 if ".lora_A." in name else 1
        kept = tensor.narrow(axis, 0, min(lora_rank, tensor.shape[axis]))
        shape = list(kept.shape)
        shape[axis] = lora_rank - shape[axis]
        tensors[name] = torch.cat([kept, tensor.new_zeros(shape)], dim=axis).contiguous()
    config = json.loads((parent_dir / CONFIG_FILE).read_text()) | {"r": lora_rank, "rank_pattern": {}}
    write_adapter(out_dir, tensors=tensors, config=config, recipe={"copied_for_timing_at_rank": lora_rank})
    return out_dir
