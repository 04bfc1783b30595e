"""Elastic net, one per draft position: few adapters, many correlated columns.

References: Zou and Hastie 2005; the objective and its names are scikit-learn's.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import PredictorError

Array = NDArray[np.float64]

_MAX_ITERATIONS = 100_000
_SMALLEST_PENALTY_FRACTION = 1e-2
_NUM_PENALTIES = 20


@dataclass(frozen=True)
class ElasticNetOptions:
    """Penalties, fixed below ``min_sources_for_inner_cv`` sources and chosen by cross-validation from there on.

    Parameters
    ----------
    penalty_fraction
        As a fraction of the smallest penalty that leaves no coefficient, so that it has no unit.
    l1_ratio, l1_ratios
        Share of the absolute-value penalty, in (0, 1]: fixed, or the candidates.
    """

    penalty_fraction: float = 0.1
    l1_ratio: float = 0.5
    l1_ratios: tuple[float, ...] = (0.1, 0.5, 0.9)
    min_sources_for_inner_cv: int = 8
    num_inner_folds: int = 5


def _largest_penalty(x: Array, y: Array, l1_ratio: float) -> float:
    centred = x - x.mean(axis=0)
    return float(np.max(np.abs(centred.T @ (y - y.mean())))) / (len(y) * l1_ratio)


def _choose_penalty(x: Array, y: Array, sources: Sequence[str], options: ElasticNetOptions) -> tuple[float, float]:
    """Return (alpha, l1_ratio); whole sources are held out where there are enough of them."""
    num_sources = len(set(sources))
    if num_sources < options.min_sources_for_inner_cv:
        return options.penalty_fraction * _largest_penalty(x, y, options.l1_ratio), options.l1_ratio
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import ElasticNetCV
    from sklearn.model_selection import GroupKFold

    folds = list(GroupKFold(min(options.num_inner_folds, num_sources)).split(x, y, groups=list(sources)))
    candidates = []
    for l1_ratio in options.l1_ratios:
        fractions = np.geomspace(1.0, _SMALLEST_PENALTY_FRACTION, _NUM_PENALTIES)
        search = ElasticNetCV(
            l1_ratio=l1_ratio, alphas=_largest_penalty(x, y, l1_ratio) * fractions, cv=folds, max_iter=_MAX_ITERATIONS
        )
        with warnings.catch_warnings():
            # A candidate that does not converge only loses the comparison; the final fit below must converge.
            warnings.simplefilter("ignore", ConvergenceWarning)
            search.fit(x, y)
        candidates.append((float(search.mse_path_.mean(axis=-1).min()), float(search.alpha_), l1_ratio))
    return min(candidates)[1:]


def _fit_one(x: Array, y: Array, *, alpha: float, l1_ratio: float) -> tuple[float, Array]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import ElasticNet

    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model = ElasticNet(alpha=alpha, l1_ratio=l1_ratio, max_iter=_MAX_ITERATIONS).fit(x, y)
        except ConvergenceWarning as err:
            raise PredictorError(
                f"the elastic net did not converge on {len(y)} adapters at penalty {alpha:.3g}; "
                "raise penalty_fraction in the predictor's options"
            ) from err
    return float(model.intercept_), np.asarray(model.coef_, dtype=np.float64)


def _fit_position(x: Array, y: Array, sources: Sequence[str], options: ElasticNetOptions) -> dict[str, Any]:
    """Fit one position on its own standardisation and return coefficients for ``x`` as it came."""
    centre, spread = x.mean(axis=0), x.std(axis=0)
    varying = spread > 1e-9 * np.maximum(1.0, np.abs(centre))
    coefficients = np.zeros(x.shape[1])
    intercept, alpha, l1_ratio = float(y.mean()), 0.0, options.l1_ratio
    z = (x[:, varying] - centre[varying]) / spread[varying]
    if z.size and np.ptp(y) > 0:
        alpha, l1_ratio = _choose_penalty(z, y, sources, options)
        intercept, slopes = _fit_one(z, y, alpha=alpha, l1_ratio=l1_ratio)
        coefficients[varying] = slopes / spread[varying]
        intercept -= float(coefficients[varying] @ centre[varying])
    return {
        "intercept": intercept,
        "coefficients": coefficients.tolist(),
        "penalty": alpha,
        "l1_ratio": l1_ratio,
        "num_adapters": len(y),
    }


class ElasticNetVariant:
    """See :class:`lora_spec.predictors.base.Variant`."""

    def fit(self, x: Array, y: Array, *, sources: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """Fit each position on the adapters that say something about it."""
        try:
            chosen = ElasticNetOptions(**options)
        except TypeError as err:
            raise PredictorError(f"elastic_net: {err}; options are those of ElasticNetOptions") from err
        positions = []
        for k in range(y.shape[1]):
            known = np.isfinite(y[:, k])
            if not known.any():
                raise PredictorError(
                    f"draft position {k + 1} is reached too rarely by every one of {len(y)} adapters; "
                    "lower the depth or measure more prompts"
                )
            rows = [source for source, is_known in zip(sources, known, strict=True) if is_known]
            positions.append(_fit_position(x[known], y[known, k], rows, chosen))
        return {"positions": positions}

    def logits(self, fitted: Mapping[str, Any], x: Array) -> Array:
        """Return intercept + coefficients . x per position."""
        positions = fitted["positions"]
        return np.array([p["intercept"] for p in positions]) + np.array([p["coefficients"] for p in positions]) @ x

    def used_columns(self, fitted: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return the columns with a coefficient at any position."""
        return np.any([np.array(p["coefficients"]) != 0 for p in fitted["positions"]], axis=0)
