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
from lora_spec.predictors.base import Logits
from lora_spec.predictors.positions import fit_positions, read_options, source_folds

Array = NDArray[np.float64]

_MAX_ITERATIONS = 100_000
# Of a candidate: on 63 adapters and 73 columns the choice is that of 100,000, in a twentieth of the time.
_SEARCH_ITERATIONS = 1_000


@dataclass(frozen=True)
class ElasticNetOptions:
    """The grid of penalties and how it is searched.

    Parameters
    ----------
    penalties
        Candidates for scikit-learn's alpha; columns have spread 1 and the response is a logit.
    l1_ratios
        Candidates for the share of the absolute-value penalty, in (0, 1].
    num_folds
        Of the inner cross-validation, at most; a fold holds whole sources.
    min_sources_for_search
        With fewer sources nothing is searched: the strongest penalty is the cautious choice.
    """

    penalties: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0)
    l1_ratios: tuple[float, ...] = (0.1, 0.5, 0.9)
    num_folds: int = 5
    min_sources_for_search: int = 4


def _choose_penalty(x: Array, y: Array, sources: Sequence[str], options: ElasticNetOptions) -> tuple[float, float]:
    """Return (alpha, l1_ratio); whole sources are held out where there are enough of them."""
    num_sources, grid_size = len(set(sources)), len(options.penalties) * len(options.l1_ratios)
    if grid_size == 1 or num_sources < options.min_sources_for_search:
        return max(options.penalties), min(options.l1_ratios)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import ElasticNetCV

    folds = source_folds(x, sources, options.num_folds)
    search = ElasticNetCV(
        l1_ratio=list(options.l1_ratios),
        alphas=list(options.penalties),
        cv=folds,
        max_iter=_SEARCH_ITERATIONS,
        precompute=True,  # with more columns than adapters it is not the default, and halves the time
    )
    with warnings.catch_warnings():
        # A candidate that does not converge only loses the comparison; the final fit must converge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(x, y)
    return float(search.alpha_), float(search.l1_ratio_)


def _fit_one(x: Array, y: Array, *, alpha: float, l1_ratio: float) -> tuple[float, Array]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import ElasticNet

    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model = ElasticNet(alpha=alpha, l1_ratio=l1_ratio, max_iter=_MAX_ITERATIONS, precompute=True).fit(x, y)
        except ConvergenceWarning as err:
            raise PredictorError(
                f"the elastic net did not converge on {len(y)} adapters at penalty {alpha:.3g}; "
                "raise the penalties in the predictor's options"
            ) from err
    return float(model.intercept_), np.asarray(model.coef_, dtype=np.float64)


def _fit_position(x: Array, y: Array, sources: Sequence[str], options: ElasticNetOptions) -> dict[str, Any]:
    """Fit one position on its own standardisation and return coefficients for ``x`` as it came."""
    centre, spread = x.mean(axis=0), x.std(axis=0)
    varying = spread > 1e-9 * np.maximum(1.0, np.abs(centre))
    coefficients = np.zeros(x.shape[1])
    intercept, alpha, l1_ratio = float(y.mean()), None, None
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
    }


class ElasticNetVariant:
    """See :class:`lora_spec.predictors.base.Variant`."""

    def fit(self, x: Array, y: Array, *, sources: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """Fit each position on the adapters that say something about it."""
        chosen = read_options(ElasticNetOptions, options, name="elastic_net")

        def fit_one(rows: Array, values: Array, names: list[str]) -> dict[str, Any]:
            return _fit_position(rows, values, names, chosen)

        return {"positions": fit_positions(x, y, sources, fit_one)}

    def logits(self, fitted: Mapping[str, Any], x: Array) -> Array:
        """Return intercept + coefficients . x per position."""
        return self.stacked([fitted])(x)[0]

    def stacked(self, models: Sequence[Mapping[str, Any]]) -> Logits:
        """Return the same of many models."""
        intercepts = np.array([[p["intercept"] for p in model["positions"]] for model in models])
        coefficients = np.array([[p["coefficients"] for p in model["positions"]] for model in models])
        return lambda x: intercepts + coefficients @ x

    def used_columns(self, fitted: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return the columns with a coefficient at any position."""
        return np.any([np.array(p["coefficients"]) != 0 for p in fitted["positions"]], axis=0)
