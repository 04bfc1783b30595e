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


def energies_of(norms: Iterable[float]) -> list[float]:
    """Return the squares of norms over that of the largest: no square leaves the range of float64. Zeros if all are."""
    norms = list(norms)
    largest = max(norms, default=0.0)
    return [(norm / largest) ** 2 if largest else 0.0 for norm in norms]


def _log_nuclear(measured: Sequence[SpectrumNumbers]) -> float:
    """Return the floored logarithm of the sum of all singular values, which may be beyond float64."""
    largest = max(numbers.spectral_norm for numbers in measured)
    if not largest:
        return log_norm(0.0)
    ratio = math.fsum(numbers.spectral_norm / largest * numbers.nuclear_ratio for numbers in measured)
    return max(math.log(largest) + math.log(ratio), log_norm(0.0))


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
    norms = [numbers.fro_norm for _, numbers in measured]
    return {
        "is_zero_update": float(not any(norms)),
        "log_fro_total": log_norm(math.hypot(*norms)),
        "log_fro_largest_module": log_norm(max(norms)),
        "log_nuclear_total": _log_nuclear([numbers for _, numbers in measured]),
        "log_spectral_largest": log_norm(max(numbers.spectral_norm for _, numbers in measured)),
    }


def _norms_by_place(measured: Sequence[tuple[InspectedModule, SpectrumNumbers]]) -> dict[str, float]:
    depths = depth_of_stacks(module for module, _ in measured)
    norms: dict[tuple[str | None, str], list[float]] = {}
    energy: dict[str | None, float] = {}
    for (module, numbers), relative in zip(measured, energies_of(n.fro_norm for _, n in measured), strict=True):
        third, family = third_of(module, depths), family_of(module)
        norms.setdefault((third, family), []).append(numbers.fro_norm)
        energy[third] = energy.get(third, 0.0) + relative
    total = math.fsum(energy.values())
    columns = {
        f"log_fro_{third}_{family}": log_norm(math.hypot(*norms.get((third, family), ())))
        for third in THIRDS
        for family in FAMILIES
    }
    outside = [norm for (third, _), held in norms.items() if third is None for norm in held]
    columns["log_fro_outside_layers"] = log_norm(math.hypot(*outside))
    return columns | {f"energy_share_{third}": energy.get(third, 0.0) / total if total else 0.0 for third in THIRDS}


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
    numbers = list(numbers)
    weights = energies_of(one.fro_norm for one in numbers)
    total = math.fsum(weights)
    values = (weight * getattr(one, quantity) for weight, one in zip(weights, numbers, strict=True))
    return math.fsum(values) / total if total else 0.0
