"""The number format in which this machine multiplies matrices quickest."""

from typing import Any


def quick_dtype() -> Any:
    """Return the type to multiply matrices in: bfloat16 where the processor has AMX tiles for it, else float32.

    On an x86 processor with AVX-512 but no AMX, float32 was twice as fast (docs/LOG.md, 2026-11-30).
    """
    import torch

    return torch.bfloat16 if torch.cpu._is_amx_tile_supported() else torch.float32


def quick_autocast() -> Any:
    """Return the context in which float32 weights are multiplied in :func:`quick_dtype`."""
    import torch

    dtype = quick_dtype()
    return torch.autocast("cpu", dtype, enabled=dtype != torch.float32)
