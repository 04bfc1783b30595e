"""The table of figure 4b from a comparison of predictors: what calibration prompts buy and cost. Draws nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import pandas as pd

from lora_spec.errors import ResultError
from lora_spec.measurement.probe_cost import CostBounds
from lora_spec.plots.context import with_context
from lora_spec.plots.schemas import PROBE_CURVE

_NOTHING = {"estimate": None, "lower": None, "upper": None}
_COSTS = tuple(field.name for field in fields(CostBounds))


def probe_curve_table(comparison: Mapping[str, Any], *, tier: str, setup: str) -> pd.DataFrame:
    """Return three rows per size of the probe (the direct probe, the predictor, their difference), checked.

    Parameters
    ----------
    comparison
        Payload of a ``predictor_comparison`` result.

    Raises
    ------
    ResultError
        It holds no curve: adapters lack their probe.
    """
    curve, context = comparison["probe_curve"], comparison["context"]
    if curve is None:
        raise ResultError(
            "the comparison holds no probe curve: some adapter has no calibration record; probe the adapters first"
        )
    free = curve["without_probe"] or _NOTHING
    shared = {
        "predictor": curve["predictor"],
        "without_probe": free["estimate"],
        "without_probe_mode": curve["without_probe_mode"],
        "mean_other_cores": curve["mean_other_cores"],
        "num_adapters": context["num_scored_adapters"],
        "num_sources": context["num_sources"],
        "num_speculative_tokens": context["num_speculative_tokens"],
    }
    frame = pd.DataFrame([{**row, **shared} for size in curve["sizes"] for row in _rows(size)])
    checked = with_context(frame, tier=tier, evidence="measured", setup=setup, interval_level=context["level"])
    return PROBE_CURVE.check(checked)


def _rows(size: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for contender in ("direct_probe", "predictor", "difference"):
        interval = size[contender] or _NOTHING
        cost = size.get(f"{contender}_cost") or dict.fromkeys(_COSTS)
        yield {
            "num_prompts": size["num_prompts"],
            "contender": contender,
            **{key: interval[key] for key in _NOTHING},
            **{key: cost[key] for key in _COSTS},
        }
