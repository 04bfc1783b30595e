"""Numbers of one spectrum: how much, and how spread out. All invariant under A -> GA, B -> B G^-1."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class SpectrumNumbers(NamedTuple):
    """What the singular values sigma_1 >= sigma_2 >= ... of one update say; all zero for a zero update.

    Parameters
    ----------
    fro_norm
        sqrt(sum sigma_i^2).
    spectral_norm
        sigma_1.
    nuclear_ratio
        sum sigma_i / sigma_1.
    stable_rank
        sum sigma_i^2 / sigma_1^2.
    effective_rank
        exp of the entropy of sigma_i / sum sigma (Roy and Vetterli 2007, "The effective rank").
    participation_ratio
        (sum sigma_i^2)^2 / sum sigma_i^4.
    energy_top1, energy_top4
        Fraction of the energy in the first one and first four singular values.
    """

    fro_norm: float
    spectral_norm: float
    nuclear_ratio: float
    stable_rank: float
    effective_rank: float
    participation_ratio: float
    energy_top1: float
    energy_top4: float


def spectrum_numbers(singular_values: NDArray[np.float64]) -> SpectrumNumbers:
    """Return the numbers of a spectrum given in descending order."""
    largest = float(singular_values[0]) if singular_values.size else 0.0
    if largest == 0:
        return SpectrumNumbers(*[0.0] * 8)
    relative = singular_values / largest  # so that squares of tiny or huge norms stay in range
    squared = relative**2
    total, sum_squared = float(relative.sum()), float(squared.sum())
    share = relative[relative > 0] / total
    return SpectrumNumbers(
        fro_norm=math.sqrt(sum_squared) * largest,
        spectral_norm=largest,
        nuclear_ratio=total,
        stable_rank=sum_squared,
        effective_rank=float(np.exp(-np.sum(share * np.log(share)))),
        participation_ratio=sum_squared**2 / float(np.sum(squared**2)),
        energy_top1=1.0 / sum_squared,
        energy_top4=float(squared[:4].sum()) / sum_squared,
    )
