"""Small adapter folders made for single tests, on top of the kit's builder."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import build_adapter_cases as kit
import numpy as np

P = kit.PREFIX
Q0 = "model.layers.0.self_attn.q_proj"


def plain(folder: Path, *, tensors: dict[str, Any] | None = None, modules: dict | None = None, **config: Any) -> Path:
    """Write the standard adapter with tensors added and config fields changed."""
    folder.mkdir(parents=True, exist_ok=True)
    named = kit.name_tensors(kit.standard() if modules is None else modules)
    kit.write_adapter(folder, {**named, **(tensors or {})}, kit.settings(**config))
    return folder


def values(*shape: int, dtype: str = "F32", seed: int = 0) -> kit.Tensor:
    """Return a tensor of normal values."""
    return kit.store(np.random.default_rng(seed).normal(0.0, 0.2, shape), dtype)


def raw(dtype: str, shape: tuple[int, ...], data: bytes) -> kit.Tensor:
    """Return a tensor of given bytes."""
    return kit.Tensor(dtype, shape, data, np.zeros(shape))


def with_config_text(folder: Path, text: str | bytes) -> Path:
    """Write the standard adapter under a config given as text."""
    plain(folder)
    (folder / kit.CONFIG).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def with_weights(folder: Path, data: bytes) -> Path:
    """Write a sound config beside weights given as bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    kit.write_config(folder, kit.settings())
    (folder / kit.WEIGHTS).write_bytes(data)
    return folder


def with_header(folder: Path, header: str, data: bytes = b"") -> Path:
    """Write a sound config beside weights with a header given as text."""
    return with_weights(folder, kit.frame(header, data))


def entry(dtype: str = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    """Return a header entry."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def sharded(folder: Path, shards: dict[str, list[str]], *, index: dict[str, str] | None = None) -> Path:
    """Write the standard adapter as shards that hold the tensors whose names contain given words."""
    folder.mkdir(parents=True, exist_ok=True)
    kit.write_config(folder, kit.settings())
    named = kit.name_tensors(kit.standard())
    weight_map = {}
    for shard, words in shards.items():
        held = {name: tensor for name, tensor in named.items() if any(word in name for word in words)}
        (folder / shard).write_bytes(kit.pack(held))
        weight_map |= dict.fromkeys(held, shard)
    text = json.dumps({"metadata": {}, "weight_map": weight_map if index is None else index})
    (folder / f"{kit.WEIGHTS}.index.json").write_text(text)
    return folder


def length_only(number: int) -> bytes:
    """Return a header length and nothing else."""
    return struct.pack("<Q", number)


_SIZES = {"F8_E4M3": 1, "F32": 4}


def sparse(folder, tensors, **config):
    """Write an adapter whose tensors ``{name: (dtype, shape)}`` are holes: they take no space on the disk."""
    folder.mkdir()
    entries, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = _SIZES[dtype] * int(np.prod(shape))
        entries[P + name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(entries).encode()
    kit.write_config(folder, kit.settings(target_modules=None, **config))
    (folder / kit.WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header)
    os.truncate(folder / kit.WEIGHTS, 8 + len(header) + at)
    return folder
