"""Figure 2: what each adapter does to acceptance length, with the pre-registered effect line."""

from typing import get_args

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lora_spec.config.adapter_pool import Stratum
from lora_spec.plots.context import FigureContext
from lora_spec.plots.labels import shorten
from lora_spec.plots.schemas import PAIRED_EFFECT
from lora_spec.plots.style import (
    BLUE,
    FAINT,
    INK,
    MUTED,
    PURPLE,
    add_footer,
    count_phrase,
    figure_of,
    legend_above,
    marker_handle,
    new_figure,
    range_phrase,
)

_ROW_GAP = 0.9  # empty rows between strata, where the stratum's name stands
_SHIFT = {"own": -0.16, "common": 0.16}
_STRATA = get_args(Stratum)
_SET_LABELS = {"own": "own traffic", "common": "common prompts"}


@figure_of(PAIRED_EFFECT)
def draw_paired_effect(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return one row per adapter, grouped by stratum, sorted by the difference on its own traffic."""
    rows, headings = _arrange(frame)
    num_rows = max(rows.values()) + 1
    fig = new_figure(1.35 + num_rows * (0.19 if num_rows <= 20 else 0.135))
    ax = fig.subplots()
    _draw_rows(ax, frame, rows)
    _draw_threshold(ax, frame, rows)
    for stratum, y in headings.items():
        ax.text(
            0.005, y, stratum, transform=ax.get_yaxis_transform(), va="center", fontsize=7, fontweight="bold", color=INK
        )
    ax.axvline(0, color=INK, lw=0.8, zorder=1)
    ax.set_ylim(num_rows - 0.3, min(headings.values()) - 0.6)
    ax.set_yticks(list(rows.values()), [shorten(name) for name in rows], fontsize=7 if num_rows <= 20 else 6)
    ax.tick_params(axis="y", length=0)
    depth = frame["num_speculative_tokens"].iloc[0]
    ax.set_xlabel(f"difference of acceptance length at K={depth}, adapted \N{MINUS SIGN} base (tokens per draft step)")
    present = [name for name in _SET_LABELS if name in set(frame["prompt_set"])]
    handles = [marker_handle("o", BLUE, _SET_LABELS[name], is_hollow=name == "common") for name in present]
    share = frame["min_accepted_loss"].iloc[0]
    words = f"{share:.0%} of the base's accepted drafts on the same prompts"
    handles.append(Line2D([], [], color=PURPLE, ls=(0, (3, 1.5)), label=f"effect line: {words}"))
    legend_above(fig, handles, num_columns=3, conclusion=frame["conclusion"].iloc[0])
    add_footer(fig, context, _count(frame))
    return fig


def _arrange(frame: pd.DataFrame) -> tuple[dict[str, float], dict[str, float]]:
    """Return the row of each adapter and of each stratum's heading, from top to bottom."""
    own_first = frame.sort_values("prompt_set", ascending=False, kind="stable").drop_duplicates("adapter")
    rows: dict[str, float] = {}
    headings: dict[str, float] = {}
    y = 0.0
    for stratum in sorted(frame["stratum"].unique(), key=_STRATA.index):
        headings[stratum] = y
        y += _ROW_GAP
        members = own_first[own_first["stratum"] == stratum]
        for name in members.sort_values(["delta_acceptance_length", "adapter"])["adapter"]:
            rows[name] = y
            y += 1
    return rows, headings


def _draw_rows(ax: Axes, frame: pd.DataFrame, rows: dict[str, float]) -> None:
    for y in rows.values():
        ax.axhline(y, color=FAINT, lw=0.4, zorder=0)
    has_both = len(set(frame["prompt_set"])) > 1
    for prompt_set, part in frame.groupby("prompt_set"):
        y = part["adapter"].map(rows).to_numpy(float) + (_SHIFT[prompt_set] if has_both else 0)
        is_common = prompt_set == "common"
        ax.hlines(y, part["lower"], part["upper"], color=MUTED if is_common else BLUE, lw=1.1, zorder=2)
        ax.plot(
            part["delta_acceptance_length"],
            y,
            "o",
            ms=3.8,
            mfc="white" if is_common else BLUE,
            mec=BLUE,
            mew=0.9,
            zorder=3,
        )


def _draw_threshold(ax: Axes, frame: pd.DataFrame, rows: dict[str, float]) -> None:
    """Draw the line piece by piece: a set share of the base's accepted drafts is another length on other prompts."""
    has_both = len(set(frame["prompt_set"])) > 1
    for prompt_set, part in frame.groupby("prompt_set"):
        y = part["adapter"].map(rows).to_numpy(float)
        above, below = {"own": (0.5, 0.0), "common": (0.0, 0.5)}[prompt_set] if has_both else (0.5, 0.5)
        ax.vlines(part["threshold"], y - above, y + below, color=PURPLE, lw=1.3, ls=(0, (3, 1.5)), zorder=1)


def _count(frame: pd.DataFrame) -> str:
    adapters = count_phrase(frame["adapter"].nunique(), "adapter")
    prompts, drafts = range_phrase(frame["num_prompts"], "paired prompt"), range_phrase(frame["num_drafts"], "draft")
    return f"n = {adapters}, per point {prompts} and {drafts}"
