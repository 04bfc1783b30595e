"""Noisy cells pulled to the line of parts, as far as their noise exceeds the line's misfit.

Where the line is right all cells share their strength; where it is wrong they stand for themselves. Empirical Bayes:
a cell's true distance from the line has variance t^2 (the misfit, one for all cells), its estimate's noise s^2 (each
cell its own), so that it keeps the share t^2 / (t^2 + s^2) of the distance it shows.

References: Efron and Morris 1973; Paule and Mandel 1982 for t^2.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.parts import line_of_parts

Array = NDArray[np.float64]

_LEAST_VARIANCE = 1e-18  # of a logarithm: steps that never differ are known exactly
_BISECTIONS = 60
# The misfit is taken at this quantile of what residuals as large as these allow: too large a misfit costs width, too
# small a one costs truth.
_CAUTION = 0.25


class Pull(NamedTuple):
    """How far each cell is pulled; ``misfit`` is t, relative, None where too few cells tell it from the line."""

    misfit: float | None
    noise_variance: Array
    weights: Array
    kept: Array


def noise_variance(draws: Array) -> Array:
    """Return each cell's variance over its draws (the first axis), deaf to the tails that one wild trial makes."""
    low, high = np.quantile(draws, (0.1587, 0.8413), axis=0)
    return np.maximum(((high - low) / 2) ** 2, _LEAST_VARIANCE)


def find_pull(logs: Array, noise: Array, design: Array) -> Pull:
    """Return the pull for cells of shape ``(K, B)``, estimates and variances of logarithms.

    The misfit solves sum r^2 / (s^2 + t^2) = a quantile of chi^2, r the residuals of the line fitted with these
    weights.
    """
    from scipy.stats import chi2

    num_free = logs.size - np.linalg.matrix_rank(design)
    if num_free < 1:
        return Pull(None, noise, 1 / noise, np.ones(logs.shape))
    wanted = chi2.ppf(_CAUTION, num_free)
    low, high = 0.0, float(np.ptp(logs) ** 2 + noise.max() + 1.0)
    if _excess(logs, noise, design, low) <= wanted:
        high = 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _excess(logs, noise, design, middle) > wanted else (low, middle)
    return Pull(float(np.sqrt(high)), noise, 1 / (noise + high), high / (high + noise))


def _excess(logs: Array, noise: Array, design: Array, misfit_variance: float) -> float:
    """Return the sum of squared residuals of the line, each in units of its own expected size."""
    weights = 1 / (noise + misfit_variance)
    line = line_of_parts(np.exp(logs), design, weights)
    return float((weights * (logs - np.log(line)) ** 2).sum())


def pulled(logs: Array, design: Array, pull: Pull) -> Array:
    """Return logarithms, shape ``(num, K, B)``, each keeping its share of the distance to its own line of parts."""
    lines = np.log([line_of_parts(np.exp(one), design, pull.weights) for one in logs])
    return lines + pull.kept * (logs - lines)


def noise_left(num_draws: int, pull: Pull, rng: np.random.Generator) -> Array:
    """Return what pulling takes from a cell's uncertainty beyond its due, shape ``(num_draws, K, B)``, logarithms.

    A pulled cell is uncertain by kept * s^2; resampled ones vary by kept^2 * s^2 only.
    """
    spread = np.sqrt(pull.kept * (1 - pull.kept) * pull.noise_variance)
    return spread * rng.standard_normal((num_draws, *pull.kept.shape))
