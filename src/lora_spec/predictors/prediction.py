"""From an exported predictor and one adapter's columns to an acceptance estimate. Needs numpy alone."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import PredictorError
from lora_spec.predictors import acceptance_algebra as algebra
from lora_spec.predictors import novelty
from lora_spec.predictors.base import Variant
from lora_spec.predictors.columns import ColumnSet
from lora_spec.predictors.conformal import jackknife_plus_bounds, min_sources, source_weights
from lora_spec.predictors.exported import check_exported, reading_export
from lora_spec.predictors.registry import variant_of
from lora_spec.records import AcceptanceEstimate, Interval

Array = NDArray[np.float64]
Reason = tuple[str, str]


def predict(exported: Mapping[str, Any], columns: ColumnSet) -> AcceptanceEstimate:
    """Return the acceptance of an adapter with these columns.

    a_k = prod r_i falls in k by construction. The bounds are jackknife+ with whole sources left out; the estimate
    lies inside them, and the bounds of a_k fall in k too (they are only ever widened to make this so).

    Raises
    ------
    PredictorError
        The export is broken, or the columns are of another mode, too few or too many.
    """
    check_exported(exported)
    with reading_export(), np.errstate(all="ignore"):
        return _predict(exported, _checked_values(exported, columns))


def _predict(exported: Mapping[str, Any], values: Mapping[str, float]) -> AcceptanceEstimate:
    variant, level = variant_of(exported["predictor"]), exported["level"]
    x = (np.array([values[c] for c in exported["columns"]]) - exported["centre"]) / np.array(exported["spread"])
    rates = algebra.acceptance_rates(variant.logits(exported["model"], x))
    lower, upper, length_bounds = _bounds(exported, variant, x, rates)
    if not np.all(np.isfinite([rates, lower, upper, *length_bounds])):
        raise ValueError("a predicted acceptance is not finite")
    lengths = zip(algebra.acceptance_lengths(rates).tolist(), *(b.tolist() for b in length_bounds), strict=True)
    novel = _novelty_reasons(exported, variant, values, x)
    return AcceptanceEstimate(
        mode=exported["mode"],
        acceptance_rate_per_pos=tuple(rates.tolist()),
        lower=tuple(lower.tolist()),
        upper=tuple(upper.tolist()),
        level=level,
        acceptance_length_by_depth=tuple(Interval(*bounds, level) for bounds in lengths),
        is_out_of_distribution=bool(novel),
        # What holds for every adapter comes first: it is the cause, and the rest its consequences.
        reasons=(*_thin_data_reasons(exported), *novel),
    )


def base_estimate(exported: Mapping[str, Any]) -> AcceptanceEstimate:
    """Return the unadapted target's acceptance that the predictor was fitted beside, as a point."""
    rates = np.array(exported["base_acceptance_rate_per_pos"])
    level, point = exported["level"], tuple(rates.tolist())
    lengths = algebra.acceptance_lengths(rates).tolist()
    return AcceptanceEstimate("measured", point, point, point, level, tuple(Interval(e, e, e, level) for e in lengths))


def zero_update_estimate(exported: Mapping[str, Any]) -> AcceptanceEstimate:
    """Return the acceptance of an adapter whose update is exactly zero: the base's, on traffic that is not known.

    No model is asked, since such an adapter lies infinitely far out on any logarithm of a norm. The interval is the
    whole possible range: what is unknown here is not the adapter but its prompts.
    """
    check_exported(exported)
    base, depth = base_estimate(exported), exported["max_depth"]
    lengths = base.acceptance_length_by_depth
    message = "the update is exactly zero: acceptance is that of the base model, on whatever prompts it will see"
    return AcceptanceEstimate(
        mode=exported["mode"],
        acceptance_rate_per_pos=base.acceptance_rate_per_pos,
        lower=(0.0,) * depth,
        upper=(1.0,) * depth,
        level=base.level,
        acceptance_length_by_depth=tuple(
            Interval(length.estimate, 1.0, k + 1.0, base.level) for k, length in enumerate(lengths, start=1)
        ),
        reasons=(("R_ZERO_UPDATE", message),),
    )


def mismatch(estimate: AcceptanceEstimate, base: AcceptanceEstimate, *, num_speculative_tokens: int) -> Interval | None:
    """Return 1 - (accepted drafts per step, adapted) / (same, base); None where the base accepts nothing.

    Only the adapted side's interval enters: the base is measured once on many drafts.
    """
    adapted = estimate.acceptance_length(num_speculative_tokens)
    accepted = base.acceptance_length(num_speculative_tokens).estimate - 1
    if accepted <= 0:
        return None
    worst, middle, best = (1 - (e - 1) / accepted for e in (adapted.lower, adapted.estimate, adapted.upper))
    return Interval(middle, best, worst, estimate.level)


def is_training_adapter(exported: Mapping[str, Any], weights_sha256: str) -> bool:
    """Return whether the predictor was fitted on these very weights: then it recalls, it does not predict."""
    with reading_export():
        return any(adapter["sha256"] == weights_sha256 for adapter in exported["training_adapters"])


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


def _bounds(
    exported: Mapping[str, Any], variant: Variant, x: Array, rates: Array
) -> tuple[Array, Array, tuple[Array, Array]]:
    sources = [adapter["source"] for adapter in exported["training_adapters"]]
    # An infinite residual is how a fit too thin to be trusted asks for the whole possible range.
    allowance = np.inf if exported["num_adapters"] < exported["min_adapters"] else 0.0
    by_source = {
        fold["left_out"]: algebra.acceptance_rates(variant.logits(fold["model"], x)) for fold in exported["folds"]
    }
    held_out, weights = np.array([by_source[source] for source in sources]), source_weights(sources)
    rate_bounds = jackknife_plus_bounds(
        algebra.logit(held_out), np.array(exported["residuals"]["rate_logit"]) + allowance, weights, exported["level"]
    )
    length_bounds = jackknife_plus_bounds(
        algebra.length_logits(algebra.acceptance_lengths(held_out)),
        np.array(exported["residuals"]["length_logit"]) + allowance,
        weights,
        exported["level"],
    )
    lower, upper = (algebra.sigmoid(bound) for bound in rate_bounds)
    lower = np.minimum.accumulate(np.minimum(lower, rates))
    upper = np.maximum.accumulate(np.maximum(upper, rates)[::-1])[::-1]
    lengths = algebra.acceptance_lengths(rates)
    shortest, longest = (algebra.lengths_from_logits(bound) for bound in length_bounds)
    return lower, upper, (np.minimum(shortest, lengths), np.maximum(longest, lengths))


def _novelty_reasons(
    exported: Mapping[str, Any], variant: Variant, values: Mapping[str, float], x: Array
) -> list[Reason]:
    used = [
        column
        for column, is_used in zip(exported["columns"], variant.used_columns(exported["model"]), strict=True)
        if is_used
    ]
    names = [adapter["name"] for adapter in exported["training_adapters"]]
    reference = exported["novelty"]
    return [
        *novelty.distance_reasons(x, np.array(reference["points"]), reference, names),
        *novelty.range_reasons(values, exported["training_range"], used, margin=exported["range_margin"]),
        *novelty.constant_reasons(values, exported["constant_columns"]),
    ]


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
