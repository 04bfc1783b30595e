"""The table of figure 4 from a comparison of predictors. Draws nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from lora_spec.plots.context import with_context
from lora_spec.plots.schemas import PREDICTOR_SCORES

_SCORES = ("spearman", "auroc")


def predictor_scores_table(comparison: Mapping[str, Any], *, tier: str, setup: str) -> pd.DataFrame:
    """Return one row per contender and score, checked; nulls that order no adapters are left out.

    Parameters
    ----------
    comparison
        Payload of a ``predictor_comparison`` result.
    """
    context = comparison["context"]
    shared = {
        "num_adapters": context["num_scored_adapters"],
        "num_sources": context["num_sources"],
        "num_speculative_tokens": context["num_speculative_tokens"],
        "question": _question(comparison["net_loss"], context),
        "unscored": comparison["net_loss"]["reason"],
    }
    rows = [{**row, **shared} for contender in comparison["contenders"] for row in _rows(contender)]
    frame = with_context(
        pd.DataFrame(rows), tier=tier, evidence="measured", setup=setup, interval_level=context["level"]
    )
    return PREDICTOR_SCORES.check(frame)


def _rows(contender: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if contender["is_null"] and not any(contender[score] for score in _SCORES):
        return
    for score in _SCORES:
        interval = contender[score] or {"estimate": None, "lower": None, "upper": None}
        yield {
            "predictor": contender["predictor"],
            "mode": contender["mode"],
            "score": score,
            **{key: interval[key] for key in ("estimate", "lower", "upper")},
            "permutation_p": contender["permutation_p"] if score == "spearman" else None,
        }


def _question(net_loss: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    depth, num_adapters = context["num_speculative_tokens"], context["num_scored_adapters"]
    if net_loss["load"] is None:
        return f"K={depth} is a net loss"
    num_positive = round(net_loss["prevalence"] * num_adapters)
    return (
        f"K={depth} is a net loss at batch {net_loss['load']['batch_size']}: {num_positive} of {num_adapters} adapters"
    )
