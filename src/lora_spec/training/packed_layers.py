"""Layers at one byte per weight, for checkpoints that are shipped for comparison only."""

from collections.abc import Mapping

import torch

_VALUES, _SCALES = ".int8", ".row_scale"


def pack_rows(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return matrices as whole numbers from -127 to 127 with one scale per row; vectors as they are.

    The largest error of a weight is 1/254 of the largest weight of its row.
    """
    packed = {}
    for name, tensor in tensors.items():
        if tensor.ndim < 2:
            packed[name] = tensor.contiguous()
            continue
        scale = tensor.float().abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / 127
        packed[name + _VALUES] = torch.round(tensor.float() / scale[:, None]).to(torch.int8)
        packed[name + _SCALES] = scale
    return packed


def unpack_rows(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors that :func:`pack_rows` was given, rounded; unpacked ones pass through."""
    unpacked = {}
    for name, tensor in tensors.items():
        if name.endswith(_VALUES):
            stem = name.removesuffix(_VALUES)
            unpacked[stem] = tensor.float() * tensors[stem + _SCALES][:, None]
        elif not name.endswith(_SCALES):
            unpacked[name] = tensor
    return unpacked
