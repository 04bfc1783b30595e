"""The table of figure 1 from the rows of a composability matrix. Draws nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from lora_spec.config import Tier
from lora_spec.errors import EvidenceError
from lora_spec.plots.context import with_context
from lora_spec.plots.statuses import STATUS_STYLES

ROW_AXES = ("method", "lora")
ANY_LORA = "any"
"""Stands for all values of ``lora`` where a method is not run at all: one row then says it."""

Row = Mapping[str, Any]


def composability_table(rows: Sequence[Row], tier: Tier) -> pd.DataFrame:
    """Return one row per method, adapters and value of another axis: the cells measured there by status, and the worst.

    Raises
    ------
    EvidenceError
        No cell was measured, so there is nothing to show.
    """
    if not any(row["evidence"] == "measured" for row in rows):
        raise EvidenceError("the matrix is contract-only: no cell was measured; pass --observations-json")
    places = [
        _place(method, lora, axis, value, group)
        for (method, lora), members in _row_groups(rows).items()
        for axis in rows[0]["axes"]
        if axis not in ROW_AXES
        for value, group in _by_value(members, axis).items()
    ]
    frame = pd.DataFrame(places)
    return with_context(frame, tier=tier.name, evidence="measured", setup=setup_of(tier), interval_level=None)


def _row_groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the cells of each row of the figure; a method without a cell that could be run is one row."""
    run = {row["axes"]["method"] for row in rows if row["status"] not in ("conceptual", "meaningless")}
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        method, lora = (row["axes"][axis] for axis in ROW_AXES)
        groups.setdefault((method, lora if method in run else ANY_LORA), []).append(row)
    return groups


def _by_value(rows: Sequence[Row], axis: str) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["axes"][axis], []).append(row)
    return groups


def _place(method: str, lora: str, axis: str, value: Any, rows: Sequence[Row]) -> dict[str, Any]:
    statuses = [_status(row, axis) for row in rows if row["evidence"] == "measured"]
    worst = max(statuses, key=list(STATUS_STYLES).index, default=_unmeasured(rows))
    return {
        "method": method,
        "lora": lora,
        "axis": axis,
        "value": ("on" if value else "off") if isinstance(value, bool) else value,
        "status": worst,
        "num_measured": len(statuses),
        **{f"num_{status}": statuses.count(status) for status in STATUS_STYLES},
    }


def _status(row: Row, axis: str) -> str:
    """Return a measured cell's status; its replaced settings count only where they are looked at."""
    if row["status"] == "works" and row["unjudged"]:
        return "unjudged"
    is_replaced = any(name in row["replaced"] for name in (*ROW_AXES, axis))
    return "replaced" if row["status"] == "works" and is_replaced else row["status"]


def _unmeasured(rows: Sequence[Row]) -> str:
    """Return what a place without measured cells is: unmeasured if any of its cells could be run."""
    statuses = {row["status"] for row in rows}
    return next(status for status in ("unmeasured", "conceptual", "meaningless") if status in statuses)


def setup_of(tier: Tier) -> str:
    """Return the line under the figure."""
    config, pair, engine = tier.phase0_runtime, tier.models.primary, tier.models.engine
    return (
        f"{pair.target.name} + {pair.drafter.name}, vLLM {engine.vllm_version} on {engine.device}, {config.dtype}, "
        f"K={config.num_speculative_tokens}, {config.num_prompts} prompts per adapter, at most {config.max_tokens} "
        f"tokens each, {config.adapters.num_slots} adapter slots, one run per cell"
    )
