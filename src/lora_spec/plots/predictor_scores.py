"""Figure 4: how well each predictor orders and separates adapters, by feature mode, with the nulls it must beat."""

from typing import Any, get_args

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lora_spec.plots.context import FigureContext
from lora_spec.plots.labels import shorten
from lora_spec.plots.schemas import PREDICTOR_SCORES
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
)
from lora_spec.records import Mode

_ROW_GAP = 1.0  # empty row above each group, where its heading stands
_NULLS = "nulls"
# A measurement of the adapter itself: what it scores is no bar for guesses from its file.
_RUNS_THE_ADAPTER = "direct_probe"
_CHANCE = {"spearman": 0.0, "auroc": 0.5}
_TITLE: dict[str, Any] = {"loc": "left", "fontsize": 6.5}
_LIMITS = {"spearman": (-1.05, 1.05), "auroc": (-0.025, 1.025)}


@figure_of(PREDICTOR_SCORES)
def draw_predictor_scores(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return one row per null and per predictor in each mode; order on the left, separation on the right."""
    rows, headings = _arrange(frame)
    last = max(rows.values())
    fig = new_figure(1.5 + 0.2 * (last + 1))
    left, right = fig.subplots(1, 2, sharey=True)
    for ax, score in ((left, "spearman"), (right, "auroc")):
        _draw_score(ax, frame[frame["score"] == score], rows, score)
        for y in headings.values():
            ax.axhline(y - 0.55, color=FAINT, lw=0.6, zorder=0)
        ax.set_ylim(last + 0.6, -0.7)
    for heading, y in headings.items():
        left.text(-0.02, y, heading, transform=left.get_yaxis_transform(), ha="right", va="center", fontweight="bold")
    left.set_yticks(list(rows.values()), [shorten(predictor, 22) for predictor, _ in rows])
    left.tick_params(axis="y", length=0)
    right.tick_params(axis="y", length=0)
    _write_p_values(left, frame, rows)
    left.set_title(f"guessed with measured acceptance length, K = {frame['num_speculative_tokens'].iloc[0]}", **_TITLE)
    right.set_title(frame["question"].iloc[0], **_TITLE)
    left.set_xlabel("Spearman (\N{MINUS SIGN}1 to 1)")
    right.set_xlabel("AUROC (0 to 1)")
    legend_above(fig, _handles(frame), num_columns=2)
    add_footer(fig, context, _count(frame))
    return fig


def _group(mode: object) -> str:
    return _NULLS if pd.isna(mode) else str(mode)


def _arrange(frame: pd.DataFrame) -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    """Return the row of each (predictor, group) and of each group's heading, from top to bottom, nulls first."""
    groups = frame["mode"].map(_group, na_action=None)
    rows: dict[tuple[str, str], float] = {}
    headings: dict[str, float] = {}
    y = 0.0
    for group in (_NULLS, *get_args(Mode)):
        members = frame.loc[groups == group, "predictor"].unique()
        if not len(members):
            continue
        headings[group] = y
        for place, predictor in enumerate(members):
            rows[predictor, group] = y + _ROW_GAP + place
        y += _ROW_GAP + len(members) + 0.2
    return rows, headings


def _draw_score(ax: Axes, part: pd.DataFrame, rows: dict[tuple[str, str], float], score: str) -> None:
    ax.axvline(_CHANCE[score], color=INK, lw=0.8, zorder=1)
    best = part.loc[part["mode"].isna() & (part["predictor"] != _RUNS_THE_ADAPTER), "estimate"].max()
    if pd.notna(best):
        ax.axvline(best, color=PURPLE, lw=1.0, ls=(0, (3, 1.5)), zorder=1)
    for row in part.dropna(subset=["estimate"]).itertuples():
        y, is_null = rows[row.predictor, _group(row.mode)], pd.isna(row.mode)
        ax.hlines(y, row.lower, row.upper, color=MUTED if is_null else BLUE, lw=1.2, zorder=2)
        ax.plot(row.estimate, y, "o", ms=4, mfc="white" if is_null else BLUE, mec=PURPLE if is_null else BLUE, zorder=3)
    if part["estimate"].isna().all():
        reason = part["unscored"].iloc[0] if score == "auroc" else None
        _write_reason(ax, "undefined" if reason is None or pd.isna(reason) else reason)
    ax.set_xlim(_LIMITS[score])
    ax.xaxis.set_major_locator(MaxNLocator(5))


def _write_reason(ax: Axes, reason: str) -> None:
    words, lines = reason.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 34:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    text = "\n".join(["not given:", *lines])
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=INK, backgroundcolor="white")


def _write_p_values(ax: Axes, frame: pd.DataFrame, rows: dict[tuple[str, str], float]) -> None:
    for row in frame.dropna(subset=["permutation_p"]).itertuples():
        value = f"p {row.permutation_p:.3f}" if row.permutation_p >= 0.001 else "p <0.001"
        y = rows[row.predictor, _group(row.mode)]
        ax.text(1.01, y, value, transform=ax.get_yaxis_transform(), va="center", fontsize=6, color=INK)


def _handles(frame: pd.DataFrame) -> list[Line2D]:
    handles = [marker_handle("o", BLUE, "predictor")]
    if frame["mode"].isna().any():
        handles.append(marker_handle("o", PURPLE, "null", is_hollow=True))
        handles.append(Line2D([], [], color=PURPLE, ls=(0, (3, 1.5)), label="best null without a run of the adapter"))
    handles.append(Line2D([], [], color=INK, lw=0.8, label="chance"))
    return handles


def _count(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    adapters, sources = (
        count_phrase(int(first["num_adapters"]), "adapter"),
        count_phrase(int(first["num_sources"]), "source"),
    )
    return f"n = {adapters} from {sources}, each guessed with its source left out"
