"""A target's weights with an adapter merged into them: what a server without LoRA would load."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lora_spec.adapter.reading import Factors, iterate_factors
from lora_spec.errors import TrainingError

if TYPE_CHECKING:
    import torch


def merged_weights(target_dir: Path, adapter_dir: Path | None) -> Iterator[tuple[str, "torch.Tensor"]]:
    """Yield (name, tensor) of every weight of the target, W + scale * B @ A where the adapter has an update.

    The sum is taken in float32 and stored in the number format of W, as by merging before serving.

    Parameters
    ----------
    adapter_dir
        Adapter folder, or None for the target as it is.

    Raises
    ------
    TrainingError
        The adapter changes a weight that the target does not have, or of another shape.
    """
    from safetensors import safe_open

    updates = _updates(adapter_dir) if adapter_dir is not None else {}
    for path in sorted(target_dir.glob("*.safetensors")):
        with safe_open(path, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 - a safetensors handle is no mapping
                update = updates.pop(name.removesuffix(".weight"), None)
                weight = weights.get_tensor(name)
                yield name, weight if update is None else _merge(weight, update)
    if updates:
        raise TrainingError(
            f"adapter {adapter_dir}: the target {target_dir} has no weight {next(iter(updates))}.weight "
            f"({len(updates)} such modules); it was trained for another model"
        )


def _updates(adapter_dir: Path) -> dict[str, Factors]:
    found = {factors.module.name: factors for factors in iterate_factors(adapter_dir)}
    if odd := [name for name, factors in found.items() if factors.module.is_embedding]:
        raise TrainingError(f"adapter {adapter_dir}: {odd[0]} is an embedding, which is not merged here")
    return found


def _merge(weight: "torch.Tensor", factors: Factors) -> "torch.Tensor":
    import torch

    a, b = (torch.from_numpy(matrix).float() for matrix in (factors.a, factors.b))
    if weight.shape != (b.shape[0], a.shape[1]):
        raise TrainingError(
            f"{factors.module.name}: the update is {b.shape[0]} x {a.shape[1]}, the target's weight "
            f"{' x '.join(map(str, weight.shape))}; the adapter was trained for another model"
        )
    return (weight.float() + factors.module.scale * (b @ a)).to(weight.dtype)
