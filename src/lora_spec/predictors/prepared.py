"""An exported predictor made ready to be asked often: checked once, its lists turned into arrays once. Numpy alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import PredictorError
from lora_spec.predictors import acceptance_algebra as algebra
from lora_spec.predictors import novelty
from lora_spec.predictors.base import Logits
from lora_spec.predictors.columns import ColumnSet
from lora_spec.predictors.conformal import jackknife_plus_bounds, min_sources, source_weights
from lora_spec.predictors.exported import check_exported, reading_export
from lora_spec.predictors.registry import variant_of
from lora_spec.records import AcceptanceEstimate, Interval

Array = NDArray[np.float64]
Reason = tuple[str, str]


@dataclass(frozen=True, eq=False)
class PreparedPredictor:
    """See :func:`prepare`.

    Parameters
    ----------
    logits
        Of the model and then of every fold's, shape ``(1 + num_sources, depth)``.
    fold_rows
        For every training adapter the row of the fold that left its source out.
    rate_residuals, length_residuals
        Shape ``(num_adapters, depth)``; infinite where the fit is too thin to be trusted, which is how the whole
        possible range is asked for.
    used_columns
        Those with any effect.
    """

    exported: Mapping[str, Any]
    centre: Array
    spread: Array
    logits: Logits
    fold_rows: NDArray[np.intp]
    weights: Array
    rate_residuals: Array
    length_residuals: Array
    points: Array
    used_columns: tuple[str, ...]
    thin_data: tuple[Reason, ...]

    def predict(self, columns: ColumnSet) -> AcceptanceEstimate:
        """Return the acceptance of an adapter with these columns.

        a_k = prod r_i falls in k by construction. The bounds are jackknife+ with whole sources left out; the estimate
        lies inside them, and the bounds of a_k fall in k too (they are only ever widened to make this so).

        Raises
        ------
        PredictorError
            The export is broken, or the columns are of another mode, too few or too many.
        """
        with reading_export(), np.errstate(all="ignore"):
            return self._predict(_checked_values(self.exported, columns))

    def _predict(self, values: Mapping[str, float]) -> AcceptanceEstimate:
        x = (np.array([values[c] for c in self.exported["columns"]]) - self.centre) / self.spread
        by_model = algebra.acceptance_rates(self.logits(x))
        rates, held_out, level = by_model[0], by_model[self.fold_rows], self.exported["level"]
        lower, upper = self._rate_bounds(rates, held_out)
        lengths, length_bounds = algebra.acceptance_lengths(rates), self._length_bounds(rates, held_out)
        if not np.all(np.isfinite([rates, lower, upper, *length_bounds])):
            raise ValueError("a predicted acceptance is not finite")
        novel = self._novelty_reasons(values, x)
        intervals = zip(lengths.tolist(), *(bound.tolist() for bound in length_bounds), strict=True)
        return AcceptanceEstimate(
            mode=self.exported["mode"],
            acceptance_rate_per_pos=tuple(rates.tolist()),
            lower=tuple(lower.tolist()),
            upper=tuple(upper.tolist()),
            level=level,
            acceptance_length_by_depth=tuple(Interval(*ends, level) for ends in intervals),
            is_out_of_distribution=bool(novel),
            # What holds for every adapter comes first: it is the cause, and the rest its consequences.
            reasons=(*self.thin_data, *novel),
        )

    def _rate_bounds(self, rates: Array, held_out: Array) -> tuple[Array, Array]:
        bounds = jackknife_plus_bounds(
            algebra.logit(held_out), self.rate_residuals, self.weights, self.exported["level"]
        )
        lower, upper = (algebra.sigmoid(bound) for bound in bounds)
        lower = np.minimum.accumulate(np.minimum(lower, rates))
        upper = np.maximum.accumulate(np.maximum(upper, rates)[::-1])[::-1]
        return lower, upper

    def _length_bounds(self, rates: Array, held_out: Array) -> tuple[Array, Array]:
        bounds = jackknife_plus_bounds(
            algebra.length_logits(algebra.acceptance_lengths(held_out)),
            self.length_residuals,
            self.weights,
            self.exported["level"],
        )
        lengths = algebra.acceptance_lengths(rates)
        shortest, longest = (algebra.lengths_from_logits(bound) for bound in bounds)
        return np.minimum(shortest, lengths), np.maximum(longest, lengths)

    def _novelty_reasons(self, values: Mapping[str, float], x: Array) -> list[Reason]:
        exported = self.exported
        names = [adapter["name"] for adapter in exported["training_adapters"]]
        return [
            *novelty.distance_reasons(x, self.points, exported["novelty"], names),
            *novelty.range_reasons(
                values, exported["training_range"], self.used_columns, margin=exported["range_margin"]
            ),
            *novelty.constant_reasons(values, exported["constant_columns"]),
        ]


def prepare(exported: Mapping[str, Any]) -> PreparedPredictor:
    """Return a predictor that can be asked.

    Raises
    ------
    PredictorError
        The export is broken.
    """
    check_exported(exported)
    with reading_export(), np.errstate(all="ignore"):
        variant, folds = variant_of(exported["predictor"]), exported["folds"]
        sources = [adapter["source"] for adapter in exported["training_adapters"]]
        row_of = {fold["left_out"]: row for row, fold in enumerate(folds, start=1)}
        used = variant.used_columns(exported["model"])
        allowance = np.inf if exported["num_adapters"] < exported["min_adapters"] else 0.0
        return PreparedPredictor(
            exported=exported,
            centre=np.array(exported["centre"], dtype=np.float64),
            spread=np.array(exported["spread"], dtype=np.float64),
            logits=variant.stacked([exported["model"], *(fold["model"] for fold in folds)]),
            fold_rows=np.array([row_of[source] for source in sources], dtype=np.intp),
            weights=source_weights(sources),
            rate_residuals=np.array(exported["residuals"]["rate_logit"], dtype=np.float64) + allowance,
            length_residuals=np.array(exported["residuals"]["length_logit"], dtype=np.float64) + allowance,
            points=np.array(exported["novelty"]["points"], dtype=np.float64),
            used_columns=tuple(c for c, is_used in zip(exported["columns"], used, strict=True) if is_used),
            thin_data=tuple(_thin_data_reasons(exported)),
        )


def _checked_values(exported: Mapping[str, Any], columns: ColumnSet) -> Mapping[str, float]:
    if columns.mode != exported["mode"]:
        raise PredictorError(
            f"the predictor is of mode {exported['mode']!r}, the columns are of {columns.mode!r}; "
            "take the columns of the predictor's mode"
        )
    known = {*exported["columns"], *exported["constant_columns"]}
    for problem, names in (("lack", known - set(columns.values)), ("hold unknown", set(columns.values) - known)):
        if names:
            raise PredictorError(
                f"the columns {problem} {min(names)!r} ({len(names)} such columns); the predictor was fitted on "
                "features of another version: extract the features again or fit the predictor again"
            )
    return columns.values


def _thin_data_reasons(exported: Mapping[str, Any]) -> list[Reason]:
    level, num_sources, num_adapters = exported["level"], exported["num_sources"], exported["num_adapters"]
    reasons = []
    if num_sources < min_sources(level):
        reasons.append(
            (
                "R_TOO_FEW_SOURCES",
                f"{num_adapters} training adapters of {num_sources} sources cannot support a {level:.0%} interval "
                f"(needs {min_sources(level)} sources): the interval is the whole possible range",
            )
        )
    if num_adapters < exported["min_adapters"]:
        reasons.append(
            (
                "R_TOO_FEW_ADAPTERS",
                f"the predictor was fitted on {num_adapters} adapters, the gate asks for {exported['min_adapters']}: "
                "the interval is the whole possible range",
            )
        )
    return reasons
