"""Figure 5b: how much of the oracle's goodput each policy loses on mixes of adapters, over all loads and at each."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from lora_spec.plots.context import FigureContext
from lora_spec.plots.labels import shorten
from lora_spec.plots.policy_schemas import GATE_REGRET
from lora_spec.plots.policy_words import policy_words
from lora_spec.plots.style import (
    BLUE,
    FAINT,
    INK,
    MUTED,
    add_footer,
    count_phrase,
    figure_of,
    legend_above,
    marker_handle,
    new_figure,
)

_LINEAR_TO = 0.01  # below it the scale is linear, so that a regret of nothing has a place
_TICKS = (0, 0.01, 0.03, 0.1, 0.5)
_ROW_IN = 0.155
_PLAIN, _FOR_MIX = "plain", "engine for the mix"
_BASIS_WORDS = {"nothing": "", "base": "", "traffic": "", "hindsight": ", by hindsight"}


@figure_of(GATE_REGRET)
def draw_gate_regret(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return one row per policy and one panel per load, the first over all."""
    rows = list(dict.fromkeys(map(tuple, frame[["policy", "basis", "variant"]].to_numpy())))
    loads = sorted(frame["load_batch_size"].dropna().unique())
    fig = new_figure(1.25 + _ROW_IN * len(rows))
    (axes,) = fig.subplots(1, len(loads) + 1, sharey=True, squeeze=False, width_ratios=[1.5, *[1] * len(loads)])
    _draw_panel(axes[0], frame[frame["load_batch_size"].isna()], rows, "all loads")
    for ax, load in zip(axes[1:], loads, strict=True):
        _draw_panel(ax, frame[frame["load_batch_size"] == load], rows, f"batch {load}")
    _name_rows(axes[0], rows, frame)
    legend_above(fig, _handles(frame), num_columns=3, conclusion=_conclusion(frame))
    add_footer(fig, context, _count(frame))
    return fig


def _draw_panel(ax: Axes, part: pd.DataFrame, rows: list[tuple[str, str, str]], title: str) -> None:
    for bar, style in ((part["max_mean_regret"].iloc[0], (0, (4, 2))), (part["max_p95_regret"].iloc[0], ":")):
        ax.axvline(bar, color=INK, lw=0.7, ls=style, zorder=1)
    for item in part.to_dict("records"):
        y = rows.index((item["policy"], item["basis"], item["variant"]))
        color = BLUE if item["is_ours"] else MUTED
        ax.hlines(y, max(item["p5"], 0), item["p95"], color=color, lw=0.9, zorder=2)
        ax.hlines(y, max(item["p25"], 0), item["p75"], color=color, lw=2.6, zorder=2)
        ax.plot(item["mean"], y, "o", ms=3.2, color=color, mec="white", mew=0.4, zorder=3)
    for y in range(1, len(rows)):
        if rows[y][0] != rows[y - 1][0]:
            ax.axhline(y - 0.5, color=FAINT, lw=0.5, zorder=0)
    ax.set_xscale("symlog", linthresh=_LINEAR_TO, linscale=0.5)
    ax.set_xlim(-0.0008, 0.75)
    ax.xaxis.set_major_locator(FixedLocator(_TICKS))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    ax.tick_params(axis="y", length=0)
    ax.set_title(title, loc="left")
    ax.set_xlabel("regret (%)")


def _name_rows(ax: Axes, rows: list[tuple[str, str, str]], frame: pd.DataFrame) -> None:
    depth = int(frame["num_speculative_tokens"].iloc[0])
    ax.set_yticks(range(len(rows)), [_row_name(*row, depth) for row in rows], fontsize=6.5)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ours = {(row.policy, row.basis, row.variant) for row in frame[frame["is_ours"]].itertuples()}
    for tick, row in zip(ax.yaxis.get_ticklabels(), rows, strict=True):
        tick.set_color(BLUE if row in ours else INK)


def _row_name(policy: str, basis: str, variant: str, depth: int) -> str:
    words = policy_words(policy, depth)
    known = _BASIS_WORDS.get(basis, f", {basis}")
    return shorten(f"{words}{known}{'' if variant == _PLAIN else f', {variant}'}", 56)


def _handles(frame: pd.DataFrame) -> list[Line2D]:
    first = frame.iloc[0]
    return [
        marker_handle("o", BLUE, "mean, verdicts of the gate", size=4),
        marker_handle("o", MUTED, "mean, others", size=4),
        Line2D([], [], color=MUTED, lw=2.6, label="middle half of the mixes; thin: 5 to 95 %"),
        Line2D([], [], color=INK, lw=0.7, ls=(0, (4, 2)), label=f"bar for the mean, {first['max_mean_regret']:.0%}"),
        Line2D([], [], color=INK, lw=0.7, ls=":", label=f"bar for the 95 % quantile, {first['max_p95_regret']:.0%}"),
    ]


def _conclusion(frame: pd.DataFrame) -> str:
    """Return what verdicts lose over all loads, by what they rest on: as they stand, and in an engine for the mix."""
    ours = frame[frame["is_ours"] & frame["load_batch_size"].isna()]
    told = []
    for basis, part in ours.groupby("basis", sort=False):
        means = part.set_index("variant")["mean"]
        mixed = f", for the mix {100 * means[_FOR_MIX]:.1f} %" if _FOR_MIX in means else ""
        told.append(f"{basis} {100 * means[_PLAIN]:.1f} %{mixed}")
    return f"Mean regret of the gate's verdicts over all loads, by what they rest on: {'; '.join(told)}"


def _count(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    mixes = count_phrase(int(first["num_mixes"]), "mix").replace("mixs", "mixes")
    return f"n = {mixes} drawn from {count_phrase(int(first['num_adapters']), 'adapter')}, the same for all policies"
