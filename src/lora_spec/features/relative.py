"""Norms relative to the base model's weights, and how the update lies towards them.

All numbers depend on scale*B*A and W0 alone, so they are invariant under A -> GA, B -> B G^-1: the update enters
through its singular vectors, never through A or B.
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
from lora_spec.errors import AdapterError
from lora_spec.features.columns import CheckpointBaseColumns
from lora_spec.features.families import THIRDS
from lora_spec.features.ladder import energies_of, log_norm
from lora_spec.features.product_svd import ProductSvd, svd_of_product

Array = NDArray[np.float64]
_BLOCK_ELEMENTS = 2**20
_USUAL_EXPONENT = 30  # weights of other sizes are first brought near 1: squares in float32 would not hold
_EXACT_SIZE = 256
_SUBSPACE, _SUBSPACE_STEPS = 8, 8


@dataclass(frozen=True)
class RelativeModule:
    """One update beside the weight W0 that it changes.

    Parameters
    ----------
    fro_norm, base_fro_norm
        ||scale*B*A||_F and ||W0||_F.
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
    fro_norm: float
    base_fro_norm: float
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
        is_turned = {
            m.name: base.orientation(m, found[m.name], fan_in_fan_out=bool(inspection.config.get("fan_in_fan_out")))
            for m in inspection.modules
            if found[m.name]
        }
        misfits = tuple(name for name, turned in is_turned.items() if turned is None)
        usable = set(found) - set(unmatched) - set(misfits)
        if inspection.is_header_only:
            return RelativeUpdate((), unmatched, misfits, None, base.num_layers, None)
        by_name = {module.name: module for module in inspection.modules}
        modules = []
        for factors in iterate_factors(path):
            if factors.module.name in usable:
                module = by_name[factors.module.name]
                weight = base.read(found[module.name], is_turned=bool(is_turned[module.name]))
                modules.append(_compare(module, factors.a, factors.b, weight))
        energy = dict(zip(by_name, energies_of(m.fro_norm for m in inspection.modules), strict=True))
        total = math.fsum(energy.values())
        share = max(0.0, 1 - math.fsum(energy[m.name] for m in modules) / total) if total else 0.0
        columns = _columns(modules, by_name, base.num_layers, share) if modules else None
        return RelativeUpdate(tuple(modules), unmatched, misfits, share, base.num_layers, columns)


def _compare(module: InspectedModule, a: Array, b: Array, weight: NDArray[np.floating]) -> RelativeModule:
    exponent = math.frexp(max(float(weight.max()), -float(weight.min())))[1]
    exponent = exponent if abs(exponent) > _USUAL_EXPONENT else 0
    weight = np.ldexp(weight, -exponent) if exponent else weight
    update = svd_of_product(a, b)
    base_fro, alignment, input_overlap, output_overlap = _project(update, weight)
    scaled_fro, scaled_spectral = (
        _ratio(norm, size, exponent)
        for norm, size in ((module.fro_norm, base_fro), (module.spectral_norm, _spectral_norm(weight)))
    )
    return RelativeModule(
        name=module.name,
        fro_norm=module.fro_norm,
        base_fro_norm=_ratio(base_fro, 1.0, -exponent),
        relative_fro=scaled_fro,
        relative_spectral=scaled_spectral,
        alignment=math.copysign(1.0, module.scale) * alignment if module.scale else 0.0,
        input_overlap=input_overlap if module.scale else 0.0,
        output_overlap=output_overlap if module.scale else 0.0,
    )


def _project(update: ProductSvd, weight: NDArray[np.floating]) -> tuple[float, float, float, float]:
    """Return ||W0||_F, the cosine of B*A and W0, and the overlaps of W0 with its row and its column space."""
    num_kept = update.values.size
    squared, inner, inside = 0.0, 0.0, 0.0
    across = np.zeros((weight.shape[1], num_kept))
    step = max(1, _BLOCK_ELEMENTS // weight.shape[1])
    for start in range(0, weight.shape[0], step):
        rows = weight[start : start + step].astype(np.float64)
        left = update.left[start : start + step]
        projected = rows @ update.right
        squared += float(np.einsum("ij,ij->", rows, rows))
        inside += float(np.einsum("ij,ij->", projected, projected))
        inner += float(np.einsum("ij,ij,j->", left, projected, update.values))
        across += rows.T @ left
    if not squared or not num_kept:
        return math.sqrt(squared), 0.0, 0.0, 0.0
    cosine = inner / (math.sqrt(squared) * float(np.linalg.norm(update.values)))
    shares = inside / squared, float(np.einsum("ij,ij->", across, across)) / squared
    return (
        math.sqrt(squared),
        min(1.0, max(-1.0, cosine)),
        shares[0] * weight.shape[1] / num_kept,
        shares[1] * weight.shape[0] / num_kept,
    )


def _ratio(norm: float, base_norm: float, exponent: int) -> float:
    """Return norm / (base_norm * 2^exponent), 0 beside a zero weight.

    Raises
    ------
    AdapterError
        The ratio is beyond float64.
    """
    if not base_norm:
        return 0.0
    (mantissa, own), (base_mantissa, base_own) = math.frexp(norm), math.frexp(base_norm)
    try:
        return math.ldexp(mantissa / base_mantissa, own - base_own - exponent)
    except OverflowError as err:
        what = "the update over the base's weights is beyond float64; check lora_alpha and the base"
        raise AdapterError(what, codes=["E_NONFINITE"]) from err


def _spectral_norm(weight: NDArray[np.floating]) -> float:
    """Return sigma_1, exactly for small matrices, else by subspace iteration from seeded random columns."""
    if min(weight.shape) <= _EXACT_SIZE:
        return float(np.linalg.norm(weight, 2))
    start = np.random.default_rng(0).standard_normal((weight.shape[1], _SUBSPACE)).astype(weight.dtype)
    for _ in range(_SUBSPACE_STEPS):
        start = np.linalg.qr(weight.T @ (weight @ start))[0]
    return float(np.linalg.norm(weight @ start, 2))


def _columns(
    modules: Sequence[RelativeModule], by_name: dict[str, InspectedModule], num_layers: int | None, share: float
) -> CheckpointBaseColumns:
    energies = energies_of(module.fro_norm for module in modules)
    total = math.fsum(energies)
    columns = {
        "base_log_relative_fro": _log_ratio(modules),
        "base_log_relative_fro_largest": log_norm(max(module.relative_fro for module in modules)),
        "base_log_relative_spectral_largest": log_norm(max(module.relative_spectral for module in modules)),
        "base_unmatched_energy_share": share,
        "base_adapted_layer_share": _layer_share(modules, by_name, num_layers),
    }
    for name in ("alignment", "input_overlap", "output_overlap"):
        weighted = math.fsum(energy * getattr(module, name) for energy, module in zip(energies, modules, strict=True))
        columns[f"base_{name}_mean"] = weighted / total if total else 0.0
    depth = num_layers or 1 + max((by_name[m.name].layer or 0 for m in modules), default=0)
    for index, third in enumerate(THIRDS):
        held = [m for m in modules if _third(by_name[m.name].layer, depth) == index]
        columns[f"base_log_relative_fro_{third}"] = _log_ratio(held)
    return CheckpointBaseColumns(columns)


def _third(layer: int | None, depth: int) -> int | None:
    return None if layer is None else min(2, 3 * layer // depth)


def _log_ratio(modules: Sequence[RelativeModule]) -> float:
    base_norm = math.hypot(*(module.base_fro_norm for module in modules))
    return log_norm(_ratio(math.hypot(*(module.fro_norm for module in modules)), base_norm, 0))


def _layer_share(
    modules: Sequence[RelativeModule], by_name: dict[str, InspectedModule], num_layers: int | None
) -> float:
    """Return the fraction of the base's layers that are adapted; 1 where the base does not say how many it has."""
    adapted = {by_name[m.name].layer for m in modules} - {None}
    return min(1.0, len(adapted) / num_layers) if num_layers else 1.0
