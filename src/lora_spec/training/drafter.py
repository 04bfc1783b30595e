"""A drafter: a few of the target's layers and a final norm over the target's own, frozen, tied embeddings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lora_spec.errors import TrainingInputError
from lora_spec.provenance import sha256_of_file
from lora_spec.training.atomic_dir import atomic_dir

if TYPE_CHECKING:
    import torch

_LAYER_PREFIX = "model.layers."
_EMBEDDING = "model.embed_tokens.weight"


def _empty_drafter(target_dir: Path, num_layers: int) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(target_dir)
    if not config.tie_word_embeddings:
        raise TrainingInputError(
            f"target {target_dir} has untied embeddings: a drafter shares one matrix for both ends"
        )
    config.num_hidden_layers = num_layers
    if hasattr(config, "layer_types"):
        config.layer_types = config.layer_types[:num_layers]
    config.dtype = torch.float32
    return AutoModelForCausalLM.from_config(config).float()


def _load_target(target_dir: Path) -> dict[str, "torch.Tensor"]:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(target_dir).state_dict()


def _load(drafter: Any, tensors: Mapping[str, "torch.Tensor"], *, origin: Path) -> None:
    missing, unexpected = drafter.load_state_dict(tensors, strict=False)
    # The output head is the embedding under another name.
    missing = [name for name in missing if name != "lm_head.weight"]
    if missing or unexpected:
        raise TrainingInputError(
            f"drafter layers in {origin} do not fit the target: missing {missing[:3]}, unexpected {unexpected[:3]}; "
            "use layers that were trained over this target"
        )
    drafter.tie_weights()


def init_drafter(target_dir: Path, *, layers: Sequence[int] = (0, 1, 28, 29)) -> Any:
    """Return an untrained float32 drafter made of some of the target's layers, in the given order.

    Its embeddings are the target's and frozen; its layers and its final norm are trainable.

    Raises
    ------
    TrainingInputError
        When the target has no such layer, or unties its embeddings.
    """
    target = _load_target(target_dir)
    drafter = _empty_drafter(target_dir, len(layers))
    tensors = {name: target[name] for name in (_EMBEDDING, "model.norm.weight")}
    for new, old in enumerate(layers):
        prefix = f"{_LAYER_PREFIX}{old}."
        found = {name: tensor for name, tensor in target.items() if name.startswith(prefix)}
        if not found:
            raise TrainingInputError(f"target {target_dir} has no layer {old}: choose layers that it has")
        tensors |= {f"{_LAYER_PREFIX}{new}.{name.removeprefix(prefix)}": tensor for name, tensor in found.items()}
    _load(drafter, tensors, origin=target_dir)
    drafter.get_input_embeddings().weight.requires_grad_(False)
    return drafter


def save_drafter_layers(
    model: Any, path: Path, *, metadata: Mapping[str, str], storage: Literal["bf16", "int8_rows"] = "bf16"
) -> None:
    """Write a drafter's trainable tensors (layers and final norm, no embeddings), whole or not at all.

    Parameters
    ----------
    storage
        Two bytes per weight, or one (:mod:`lora_spec.training.packed_layers`).
    """
    import torch
    from safetensors.torch import save_file

    from lora_spec.training.packed_layers import pack_rows

    tensors = {
        name: parameter.detach().to(torch.bfloat16).contiguous()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    save_file(pack_rows(tensors) if storage == "int8_rows" else tensors, part, metadata=dict(metadata))
    part.replace(path)


def _read_layers(path: Path, sha256: str | None) -> dict[str, "torch.Tensor"]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from lora_spec.training.packed_layers import unpack_rows

    try:
        found = sha256_of_file(path)
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise TrainingInputError(
            f"drafter layers {path} cannot be read ({error}): fetch or train them again"
        ) from error
    if sha256 not in (None, found):
        raise TrainingInputError(
            f"drafter layers {path} have SHA-256 {found}, expected {sha256}: "
            "restore the pinned file, or pin the hash of the new one"
        )
    return unpack_rows(tensors)


def assemble_drafter(target_dir: Path, layers_file: Path, out_dir: Path, *, sha256: str | None = None) -> Path:
    """Write a plain HF model from saved layers and the target's embeddings, and return ``out_dir``.

    vLLM loads it as ``draft_model``: same vocabulary, the target's tokenizer, as many layers as the file holds.

    Parameters
    ----------
    sha256
        What the file must hash to; None for layers that were just trained.

    Raises
    ------
    TrainingInputError
        When the file is missing, unreadable or another than pinned, or its layers do not fit the target.
    """
    import torch
    from transformers import AutoTokenizer

    tensors = _read_layers(layers_file, sha256)
    numbers = {int(name.split(".")[2]) for name in tensors if name.startswith(_LAYER_PREFIX)}
    drafter = _empty_drafter(target_dir, len(numbers))
    shapes = {name: parameter.shape for name, parameter in drafter.named_parameters()}
    if wrong := [name for name, tensor in tensors.items() if name in shapes and tensor.shape != shapes[name]]:
        raise TrainingInputError(
            f"drafter layers {layers_file}: {wrong[0]} has shape {tuple(tensors[wrong[0]].shape)}, the target needs "
            f"{tuple(shapes[wrong[0]])}; use layers that were trained over this target"
        )
    _load(drafter, {**tensors, _EMBEDDING: _load_target(target_dir)[_EMBEDDING]}, origin=layers_file)
    with atomic_dir(out_dir) as part:
        drafter.config.dtype = torch.bfloat16
        drafter.to(torch.bfloat16).save_pretrained(part)
        AutoTokenizer.from_pretrained(target_dir).save_pretrained(part)
    return out_dir
