"""The table of figure 5b from a regret result: every policy over all loads and at each. Draws nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from lora_spec.plots.context import with_context
from lora_spec.plots.policy_schemas import GATE_REGRET

_SPREAD = ("mean", "p5", "p25", "p50", "p75", "p95")


def gate_regret_table(payload: Mapping[str, Any], *, tier: str, setup: str) -> pd.DataFrame:
    """Return one row per policy and load, and one over all loads, checked.

    Parameters
    ----------
    payload
        Of a ``gate_regret`` result.
    """
    context, bars = payload["context"], payload["bars"]
    shared = {
        "num_mixes": len(payload["mixes"]),
        "num_adapters": context["num_scored_adapters"],
        "num_speculative_tokens": context["standing_num_speculative_tokens"],
        **{key: bars[key] for key in ("max_mean_regret", "max_p95_regret")},
    }
    frame = pd.DataFrame([{**row, **shared} for one in payload["contenders"] for row in _rows(one)])
    frame["load_batch_size"] = frame["load_batch_size"].astype("Int64")
    checked = with_context(frame, tier=tier, evidence="measured", setup=setup, interval_level=None)
    return GATE_REGRET.check(checked)


def _rows(contender: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    shown = {key: contender[key] for key in ("policy", "basis", "variant", "is_ours")}
    for spread in (contender["overall"], *contender["by_load"]):
        row = {key: spread[key] for key in _SPREAD}
        yield {**shown, "load_batch_size": spread.get("batch_size"), **row}
