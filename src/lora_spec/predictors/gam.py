"""A generalised additive model, one per draft position: a smooth curve in each of a few columns.

The columns are chosen inside each fit, by the rank correlation with the response, so that no held-out adapter has a
say. The curves are exported as points on a grid, between which a prediction runs straight; beyond the training range
they stay level.

References: Hastie and Tibshirani 1990; Eilers and Marx 1996; basis and penalty are statsmodels'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.predictors.base import Logits
from lora_spec.predictors.positions import fit_positions, read_options, source_folds

Array = NDArray[np.float64]

_MIN_DISTINCT = 6  # values that a column must take for a curve in it
_MAX_CORRELATION = 0.95  # of two columns' ranks: beyond it the second says what the first says
_GRID_POINTS = 65
_DEGREE = 3


@dataclass(frozen=True)
class GamOptions:
    """How many curves, how bent, and how that is chosen.

    Parameters
    ----------
    num_curves
        Columns that get a curve, at most.
    num_basis
        B-splines per curve, at least 4.
    penalties
        Candidates for the weight of the squared second derivative; one for all curves.
    num_folds, min_sources_for_search
        As in :class:`lora_spec.predictors.elastic_net.ElasticNetOptions`; few sources get the strongest penalty.
    """

    num_curves: int = 3
    num_basis: int = 6
    penalties: tuple[float, ...] = (1.0, 10.0, 100.0)
    num_folds: int = 5
    min_sources_for_search: int = 4


def _ranks(values: Array) -> Array:
    from scipy.stats import rankdata

    return rankdata(values, axis=0)


def _choose_columns(x: Array, y: Array, num_curves: int) -> list[int]:
    """Return columns by falling |Spearman| with y, leaving out those that repeat an earlier one."""
    varied = [j for j in range(x.shape[1]) if len(np.unique(x[:, j])) >= _MIN_DISTINCT]
    if not varied or np.ptp(y) == 0:
        return []
    ranks = _ranks(np.column_stack([y, x[:, varied]]))
    correlation = np.abs(np.corrcoef(ranks, rowvar=False))
    chosen: list[int] = []
    for place in np.argsort(-correlation[0, 1:], kind="stable") + 1:
        if len(chosen) < num_curves and all(correlation[place, other] < _MAX_CORRELATION for other in chosen):
            chosen.append(int(place))
    return [varied[place - 1] for place in chosen]


@dataclass(frozen=True)
class _Basis:
    """The splines of the chosen columns on some adapters; the same for every penalty."""

    columns: tuple[int, ...]
    ranges: tuple[tuple[float, float], ...]
    splines: Any

    @classmethod
    def on(cls, x: Array, y: Array, options: GamOptions) -> "_Basis":
        from statsmodels.gam.api import BSplines

        columns = tuple(_choose_columns(x, y, options.num_curves))
        if not columns:
            return cls((), (), None)
        chosen, num = x[:, list(columns)], len(columns)
        splines = BSplines(chosen, df=[options.num_basis] * num, degree=[_DEGREE] * num)
        return cls(columns, tuple((float(v.min()), float(v.max())) for v in chosen.T), splines)


def _fit_curves(y: Array, basis: _Basis, penalty: float) -> dict[str, Any]:
    """Return intercept and curves; each curve is its values on an even grid over the column's range."""
    if not basis.columns:
        return {"intercept": float(y.mean()), "curves": []}
    splines = basis.splines
    parameters = _penalised_least_squares(splines.basis, y, splines.penalty_matrices, penalty)
    curves, at = [], 1
    for column, (low, high), part in zip(basis.columns, basis.ranges, splines.smoothers, strict=True):
        weights = parameters[at : at + part.dim_basis]
        at += part.dim_basis
        values = part.transform(np.linspace(low, high, _GRID_POINTS)) @ weights
        curves.append({"column": column, "low": low, "high": high, "values": values.tolist()})
    return {"intercept": float(parameters[0]), "curves": curves}


def _penalised_least_squares(basis: Array, y: Array, bends: Sequence[Array], penalty: float) -> Array:
    """Return the intercept and the weights of the basis that minimise |y - fit|^2 + penalty * sum of w' S w.

    That is what ``GLMGam`` does for normal errors, by iterations that stop with an error where the fit is exact.
    """
    from scipy.linalg import block_diag

    values, vectors = np.linalg.eigh(block_diag(np.zeros((1, 1)), *bends))
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    design = np.vstack([np.column_stack([np.ones(len(y)), basis]), np.sqrt(penalty) * root])
    return np.linalg.lstsq(design, np.concatenate([y, np.zeros(len(root))]))[0]


def _choose_penalty(x: Array, y: Array, sources: Sequence[str], options: GamOptions) -> float:
    if len(options.penalties) == 1 or len(set(sources)) < options.min_sources_for_search:
        return max(options.penalties)
    errors = np.zeros(len(options.penalties))
    for inside, outside in source_folds(x, sources, options.num_folds):
        basis = _Basis.on(x[inside], y[inside], options)
        for place, penalty in enumerate(options.penalties):
            curves = _fit_curves(y[inside], basis, penalty)
            evaluated = _Curves.of([curves])
            guesses = np.array([curves["intercept"] + evaluated.sums(row, 1)[0] for row in x[outside]])
            errors[place] += ((guesses - y[outside]) ** 2).sum()
    return options.penalties[int(np.argmin(errors))]


@dataclass(frozen=True)
class _Curves:
    """All curves of some positions: the position of each, its column, its range, its values on an even grid."""

    places: NDArray[np.intp]
    columns: NDArray[np.intp]
    low: Array
    high: Array
    values: Array

    @classmethod
    def of(cls, positions: Sequence[Mapping[str, Any]]) -> "_Curves":
        curves = [(place, curve) for place, position in enumerate(positions) for curve in position["curves"]]
        low, high = (np.array([curve[end] for _, curve in curves], dtype=np.float64) for end in ("low", "high"))
        if np.any(low >= high):
            raise ValueError("a curve has no range")
        return cls(
            places=np.array([place for place, _ in curves], dtype=np.intp),
            columns=np.array([curve["column"] for _, curve in curves], dtype=np.intp),
            low=low,
            high=high,
            values=np.array([curve["values"] for _, curve in curves], dtype=np.float64).reshape(
                len(curves), -1 if curves else 0
            ),
        )

    def sums(self, x: Array, num_positions: int) -> Array:
        """Return the sum of each position's curves at ``x``: straight between grid points, level beyond the range."""
        if not len(self.places):
            return np.zeros(num_positions)
        last = self.values.shape[1] - 1
        along = last * np.clip((x[self.columns] - self.low) / (self.high - self.low), 0.0, 1.0)
        left = np.minimum(along.astype(np.intp), last - 1)
        rows, share = np.arange(len(left)), along - left
        found = self.values[rows, left] * (1 - share) + self.values[rows, left + 1] * share
        return np.bincount(self.places, weights=found, minlength=num_positions)


class GamVariant:
    """See :class:`lora_spec.predictors.base.Variant`."""

    def fit(self, x: Array, y: Array, *, sources: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """Fit each position on the adapters that say something about it."""
        chosen = read_options(GamOptions, options, name="gam")

        def fit_one(rows: Array, values: Array, names: list[str]) -> dict[str, Any]:
            penalty = _choose_penalty(rows, values, names, chosen)
            return {**_fit_curves(values, _Basis.on(rows, values, chosen), penalty), "penalty": penalty}

        return {"num_columns": x.shape[1], "positions": fit_positions(x, y, sources, fit_one)}

    def logits(self, fitted: Mapping[str, Any], x: Array) -> Array:
        """Return intercept + sum of the curves at ``x`` per position."""
        return self.stacked([fitted])(x)[0]

    def stacked(self, models: Sequence[Mapping[str, Any]]) -> Logits:
        """Return the same of many models."""
        intercepts = np.array([[p["intercept"] for p in model["positions"]] for model in models])
        curves = _Curves.of([position for model in models for position in model["positions"]])
        return lambda x: intercepts + curves.sums(x, intercepts.size).reshape(intercepts.shape)

    def used_columns(self, fitted: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return the columns with a curve at any position."""
        used = np.zeros(fitted["num_columns"], dtype=bool)
        used[[curve["column"] for position in fitted["positions"] for curve in position["curves"]]] = True
        return used
