"""One update beside what the base profile says of its module: how far it moves the output, and the margins.

The update enters as s B A = size * L diag(v) R' with orthonormal L and R and |v| = 1, so everything is invariant under
A -> GA, B -> B G^-1, and nothing of the size of W is formed: the cost is O((in + out) r) per module and position.

That margins move linearly in a small update is known; ``engines/trace.py`` names the sources.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter import InspectedModule, Inspection, iterate_factors
from lora_spec.errors import AdapterError
from lora_spec.features.base_profile import BaseProfile, ProfiledModule
from lora_spec.features.families import family_of
from lora_spec.features.product_svd import ProductSvd, svd_of_product

Array = NDArray[np.float64]


@dataclass(frozen=True)
class UpdateOnBase:
    """What one module's update does on the base's own texts.

    Parameters
    ----------
    fro_norm
        ||s B A||_F.
    shift
        sqrt(E ||s B A x||^2) over the base's output positions.
    relative_shift
        The same over sqrt(E ||W x||^2), the module's own output.
    input_gain
        E ||s B A x||^2 / (||s B A||_F^2 E ||x||^2 / in_features): 1 if the update reads directions at random.
    margin_changes
        First-order change of each traced margin, logits, shape ``(num_positions,)``.
    """

    name: str
    third: str
    family: str
    fro_norm: float
    shift: float
    relative_shift: float
    input_gain: float
    margin_changes: Array


def put_on_base(path: Path, inspection: Inspection, profile: BaseProfile) -> tuple[UpdateOnBase, ...]:
    """Return what every module's update does.

    Raises
    ------
    BaseProfileError
        The adapter changes a module that the profile's base does not have, or has in another size.
    AdapterError
        A number leaves the range of float64, or the adapter's files changed meanwhile.
    """
    profile.refuse_misfit(inspection)
    by_name = {module.name: module for module in inspection.modules}
    return tuple(
        _put(by_name[factors.module.name], svd_of_product(factors.a, factors.b), profile)
        for factors in iterate_factors(path)
        if factors.module.name in by_name
    )


def _put(module: InspectedModule, update: ProductSvd, profile: BaseProfile) -> UpdateOnBase:
    base, size = profile.find(module), module.fro_norm
    length = float(np.linalg.norm(update.values))
    weights = update.values / length if length else update.values
    energy = mean_energy(update.right, weights, base)
    changes = math.copysign(1.0, module.scale) * _margin_changes(update, weights, base)
    shift, changes = _scaled(size, energy, changes)
    own, chance = base.entry["output_energy"], base.entry["input_energy"] / module.in_features
    return UpdateOnBase(
        name=module.name,
        third=profile.third(base),
        family=family_of(module),
        fro_norm=size,
        shift=shift,
        relative_shift=shift / math.sqrt(own) if own else 0.0,
        input_gain=energy / chance if chance and size else 0.0,
        margin_changes=changes,
    )


def mean_energy(right: Array, weights: Array, base: ProfiledModule) -> float:
    """Return E ||diag(weights) R' x||^2 = sum_i weights_i^2 R_i' M R_i.

    Of M = E[x x'] the largest eigenpairs are known; what else there is of its trace is spread over all other
    directions alike.
    """
    directions = base.directions.astype(np.float64)
    energies = base.energies.astype(np.float64)
    shares = (directions.T @ right) ** 2
    num_others = directions.shape[0] - energies.size
    rest = max(0.0, base.entry["input_energy"] - float(energies.sum())) / num_others if num_others else 0.0
    along = energies @ shares + rest * np.maximum(0.0, 1.0 - shares.sum(axis=0))
    return float(weights**2 @ along)


def _margin_changes(update: ProductSvd, weights: Array, base: ProfiledModule) -> Array:
    """Return sum_i g_i' L diag(weights) R' x_i over the stored factors of each position."""
    inputs, gradients = base.factors()
    if not weights.size:
        return np.zeros(inputs.shape[0])
    read, moved = inputs @ update.right, gradients @ update.left
    return np.einsum("tir,tir,r->t", read, moved, weights)


def _scaled(size: float, energy: float, changes: Array) -> tuple[float, Array]:
    with np.errstate(over="ignore"):
        shift, changes = size * math.sqrt(energy), size * changes
    if not (math.isfinite(shift) and np.isfinite(changes).all()):
        what = "the update's effect on the base is beyond float64; check lora_alpha and the factors"
        raise AdapterError(what, codes=["E_NONFINITE"])
    return shift, changes
