"""The ladder of checkpoint features: the module pattern (F0), norms by place (F1), shapes of spectra (F2)."""

import math
from collections.abc import Iterable, Sequence

from lora_spec.adapter import InspectedModule
from lora_spec.features.columns import CheckpointOnlyColumns
from lora_spec.features.families import FAMILIES, THIRDS, depth_of_stacks, family_of, third_of
from lora_spec.features.spectral import SpectrumNumbers, spectrum_numbers

# An absent or zero update has no logarithm; it is given that of a norm far below any that a model can notice.
NORM_FLOOR = 1e-6
_MEANS = ("stable_rank", "effective_rank", "participation_ratio", "energy_top1", "energy_top4")


def log_norm(norm: float) -> float:
    """Return the natural logarithm of a norm, floored at 1e-6."""
    return math.log(max(norm, NORM_FLOOR))


def checkpoint_only_columns(modules: Sequence[InspectedModule]) -> CheckpointOnlyColumns:
    """Return the columns of one adapter from its measured modules."""
    measured = [(module, spectrum_numbers(module.singular_values)) for module in modules]
    columns = _pattern(modules)
    columns |= _norms(measured)
    columns |= _norms_by_place(measured)
    columns |= _shapes(measured)
    return CheckpointOnlyColumns(columns)


def _pattern(modules: Sequence[InspectedModule]) -> dict[str, float]:
    return {
        "log_num_modules": math.log(len(modules)),
        "num_families": float(len({family_of(module) for module in modules})),
        "num_layers_adapted": float(len({(module.stack, module.layer) for module in modules if module.stack})),
    }


def _norms(measured: Sequence[tuple[InspectedModule, SpectrumNumbers]]) -> dict[str, float]:
    energies = [numbers.energy for _, numbers in measured]
    return {
        "is_zero_update": float(not any(energies)),
        "log_fro_total": log_norm(math.sqrt(math.fsum(energies))),
        "log_fro_largest_module": log_norm(math.sqrt(max(energies))),
        "log_nuclear_total": log_norm(math.fsum(numbers.nuclear_norm for _, numbers in measured)),
        "log_spectral_largest": log_norm(max(numbers.spectral_norm for _, numbers in measured)),
    }


def _norms_by_place(measured: Sequence[tuple[InspectedModule, SpectrumNumbers]]) -> dict[str, float]:
    depths = depth_of_stacks(module for module, _ in measured)
    energy: dict[tuple[str | None, str], float] = {}
    for module, numbers in measured:
        place = third_of(module, depths), family_of(module)
        energy[place] = energy.get(place, 0.0) + numbers.energy
    total = math.fsum(energy.values())
    columns = {
        f"log_fro_{third}_{family}": log_norm(math.sqrt(energy.get((third, family), 0.0)))
        for third in THIRDS
        for family in FAMILIES
    }
    columns["log_fro_outside_layers"] = log_norm(math.sqrt(_sum_of(energy, None)))
    return columns | {f"energy_share_{third}": _sum_of(energy, third) / total if total else 0.0 for third in THIRDS}


def _sum_of(energy: dict[tuple[str | None, str], float], third: str | None) -> float:
    return math.fsum(value for (where, _), value in energy.items() if where == third)


def _shapes(measured: Sequence[tuple[InspectedModule, SpectrumNumbers]]) -> dict[str, float]:
    parts = {
        "all": [numbers for _, numbers in measured],
        "attention": [n for module, n in measured if family_of(module) in FAMILIES[:3]],
        "mlp": [n for module, n in measured if family_of(module) in FAMILIES[3:5]],
    }
    return {
        f"{quantity}_{part}": _weighted_mean(quantity, numbers)
        for quantity in _MEANS
        for part, numbers in parts.items()
    }


def _weighted_mean(quantity: str, numbers: Iterable[SpectrumNumbers]) -> float:
    """Return the mean over modules, weighted by energy; 0 where there is none."""
    pairs = [(one.energy, getattr(one, quantity)) for one in numbers]
    total = math.fsum(weight for weight, _ in pairs)
    return math.fsum(weight * value for weight, value in pairs) / total if total else 0.0
