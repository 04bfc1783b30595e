"""The number format in which a device multiplies matrices quickest."""

from typing import Any, Literal

Device = Literal["cpu", "cuda"]


def quick_dtype(device: Device = "cpu") -> Any:
    """Return the type to multiply matrices in: bfloat16 where there are instructions for it, else float32.

    On a processor with AMX tiles or AVX512-BF16, bfloat16 is about twice as fast; without either it takes twice as
    long (docs/LOG.md). GPUs that the preflight lets through have it.
    """
    import torch

    if device == "cuda":
        return torch.bfloat16
    has_bfloat16 = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if has_bfloat16 else torch.float32


def quick_autocast(device: Device = "cpu") -> Any:
    """Return the context in which float32 weights are multiplied in :func:`quick_dtype`."""
    import torch

    dtype = quick_dtype(device)
    return torch.autocast(device, dtype, enabled=dtype != torch.float32)
