"""Acceptance estimates that an exported predictor gives, of one adapter and of none. Needs numpy alone."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lora_spec.predictors import acceptance_algebra as algebra
from lora_spec.predictors.columns import ColumnSet
from lora_spec.predictors.exported import check_exported, reading_export
from lora_spec.predictors.prepared import prepare
from lora_spec.records import AcceptanceEstimate, Interval


def predict(exported: Mapping[str, Any], columns: ColumnSet) -> AcceptanceEstimate:
    """Return the acceptance of an adapter with these columns, as :meth:`PreparedPredictor.predict` does.

    Raises
    ------
    PredictorError
        The export is broken, or the columns are of another mode, too few or too many.
    """
    return prepare(exported).predict(columns)


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
