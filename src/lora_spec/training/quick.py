"""The number format in which this machine multiplies matrices quickest."""

from typing import Any


def quick_dtype() -> Any:
    """Return the type to multiply matrices in: bfloat16 where the processor has instructions for it, else float32.

    With AMX tiles or AVX512-BF16, bfloat16 is about twice as fast; without either it takes twice as long (docs/LOG.md).
    """
    import torch

    has_bfloat16 = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if has_bfloat16 else torch.float32


def quick_autocast() -> Any:
    """Return the context in which float32 weights are multiplied in :func:`quick_dtype`."""
    import torch

    dtype = quick_dtype()
    return torch.autocast("cpu", dtype, enabled=dtype != torch.float32)
