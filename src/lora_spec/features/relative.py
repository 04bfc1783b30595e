"""Norms relative to the base model's weights, and how the update lies towards them.

All numbers depend on scale*B*A and W0 alone, so they are invariant under A -> GA, B -> B G^-1.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter import InspectedModule, Inspection, iterate_factors
from lora_spec.adapter.base_model import BaseModel
from lora_spec.features.columns import CheckpointBaseColumns
from lora_spec.features.families import THIRDS
from lora_spec.features.ladder import log_norm

Array = NDArray[np.float64]
_EXACT_SIZE = 256
_SUBSPACE, _SUBSPACE_STEPS = 8, 8


@dataclass(frozen=True)
class RelativeModule:
    """One update beside the weight W0 that it changes.

    Parameters
    ----------
    relative_fro
        ||scale*B*A||_F / ||W0||_F.
    relative_spectral
        sigma_1(scale*B*A) / sigma_1(W0), the latter by subspace iteration: a lower bound within a percent.
    alignment
        Cosine of the update and W0 as vectors: <scale*B*A, W0>_F / (||scale*B*A||_F ||W0||_F), in [-1, 1].
    input_overlap, output_overlap
        Share of W0's energy in the update's row (column) space, over what a random space of that size would hold.
    """

    name: str
    energy: float
    relative_fro: float
    relative_spectral: float
    alignment: float
    input_overlap: float
    output_overlap: float


@dataclass(frozen=True)
class RelativeUpdate:
    """An adapter beside its base: what was found, what the base does not have, what has other sizes."""

    modules: tuple[RelativeModule, ...]
    unmatched: tuple[str, ...]
    misfits: tuple[str, ...]
    unmatched_energy_share: float | None
    num_layers: int | None
    columns: CheckpointBaseColumns | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "num_matched": len(self.modules),
            "unmatched": list(self.unmatched),
            "misfits": list(self.misfits),
            "unmatched_energy_share": self.unmatched_energy_share,
            "num_layers": self.num_layers,
            "modules": [asdict(module) for module in self.modules],
            "columns": None if self.columns is None else dict(self.columns.values),
        }


def relative_to_base(path: Path, inspection: Inspection, base_folder: Path) -> RelativeUpdate:
    """Return an adapter's update relative to a base model in a local folder.

    With a config alone the layers are counted and no norms are given. After a header-only inspection only names and
    sizes are compared.

    Raises
    ------
    AdapterError
        The base model cannot be read, or the adapter's files changed meanwhile.
    """
    with BaseModel(base_folder) as base:
        if not base.has_weights:
            return RelativeUpdate((), (), (), None, base.num_layers, None)
        found = {module.name: base.find(module) for module in inspection.modules}
        unmatched = tuple(name for name, entry in found.items() if entry is None)
        misfits = tuple(m.name for m in inspection.modules if found[m.name] and not base.fits(m, found[m.name]))
        usable = set(found) - set(unmatched) - set(misfits)
        if inspection.is_header_only:
            return RelativeUpdate((), unmatched, misfits, None, base.num_layers, None)
        by_name = {module.name: module for module in inspection.modules}
        modules = []
        for factors in iterate_factors(path):
            if factors.module.name in usable:
                module = by_name[factors.module.name]
                weight = base.read(module, found[module.name])
                modules.append(_compare(module, factors.a, factors.b, weight))
        energy = math.fsum(module.fro_norm**2 for module in inspection.modules)
        share = 1 - math.fsum(module.energy for module in modules) / energy if energy else 0.0
        columns = _columns(modules, by_name, base.num_layers, share) if modules else None
        return RelativeUpdate(tuple(modules), unmatched, misfits, max(0.0, share), base.num_layers, columns)


def _compare(module: InspectedModule, a: Array, b: Array, weight: NDArray[np.float32]) -> RelativeModule:
    base_fro = float(np.linalg.norm(weight))
    projected = (weight @ a.T.astype(np.float32)).astype(np.float64)  # W0 A^T, shape (out, rank)
    inner = module.scale * float(np.sum(b * projected))
    fro = module.fro_norm
    size = fro * base_fro
    return RelativeModule(
        name=module.name,
        energy=fro**2,
        relative_fro=fro / base_fro if base_fro else 0.0,
        relative_spectral=module.spectral_norm / _spectral_norm(weight) if base_fro else 0.0,
        alignment=inner / size if size else 0.0,
        input_overlap=_overlap(weight, _basis(a.T), base_fro),
        output_overlap=_overlap(weight.T, _basis(b), base_fro),
    )


def _basis(columns: Array) -> NDArray[np.float32]:
    """Return an orthonormal basis of the space of the columns; none for zero columns."""
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    kept = values > 1e-10 * values[0] if values[0] > 0 else np.zeros(values.size, bool)
    return left[:, kept].astype(np.float32)


def _overlap(weight: NDArray[np.float32], basis: NDArray[np.float32], base_fro: float) -> float:
    if not basis.shape[1] or not base_fro:
        return 0.0
    held = float(np.linalg.norm(weight @ basis)) ** 2 / base_fro**2
    return held * weight.shape[1] / basis.shape[1]


def _spectral_norm(weight: NDArray[np.float32]) -> float:
    """Return sigma_1, exactly for small matrices, else by subspace iteration from seeded random columns."""
    if min(weight.shape) <= _EXACT_SIZE:
        return float(np.linalg.norm(weight, 2))
    start = np.random.default_rng(0).standard_normal((weight.shape[1], _SUBSPACE)).astype(np.float32)
    for _ in range(_SUBSPACE_STEPS):
        start = np.linalg.qr(weight.T @ (weight @ start))[0]
    return float(np.linalg.norm(weight @ start, 2))


def _columns(
    modules: Sequence[RelativeModule], by_name: dict[str, InspectedModule], num_layers: int | None, share: float
) -> CheckpointBaseColumns:
    energy = math.fsum(module.energy for module in modules)
    base_energy = {m.name: m.energy / m.relative_fro**2 if m.relative_fro else 0.0 for m in modules}
    columns = {
        "base_log_relative_fro": _log_ratio(energy, math.fsum(base_energy.values())),
        "base_log_relative_fro_largest": log_norm(max(module.relative_fro for module in modules)),
        "base_log_relative_spectral_largest": log_norm(max(module.relative_spectral for module in modules)),
        "base_unmatched_energy_share": max(0.0, share),
        "base_adapted_layer_share": _layer_share(modules, by_name, num_layers),
    }
    for name in ("alignment", "input_overlap", "output_overlap"):
        total = math.fsum(module.energy * getattr(module, name) for module in modules)
        columns[f"base_{name}_mean"] = total / energy if energy else 0.0
    depth = num_layers or 1 + max((by_name[m.name].layer or 0 for m in modules), default=0)
    for index, third in enumerate(THIRDS):
        held = [m for m in modules if _third(by_name[m.name].layer, depth) == index]
        columns[f"base_log_relative_fro_{third}"] = _log_ratio(
            math.fsum(m.energy for m in held), math.fsum(base_energy[m.name] for m in held)
        )
    return CheckpointBaseColumns(columns)


def _third(layer: int | None, depth: int) -> int | None:
    return None if layer is None else min(2, 3 * layer // depth)


def _log_ratio(energy: float, base_energy: float) -> float:
    return log_norm(math.sqrt(energy / base_energy) if base_energy else 0.0)


def _layer_share(
    modules: Sequence[RelativeModule], by_name: dict[str, InspectedModule], num_layers: int | None
) -> float:
    """Return the fraction of the base's layers that are adapted; 1 where the base does not say how many it has."""
    adapted = {by_name[m.name].layer for m in modules} - {None}
    return min(1.0, len(adapted) / num_layers) if num_layers else 1.0
