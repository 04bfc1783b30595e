"""Figure 5: the order of adapters by acceptance against their order by speedup at each load."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lora_spec.errors import ResultError
from lora_spec.plots.context import FigureContext
from lora_spec.plots.labels import shorten
from lora_spec.plots.schemas import RANK_DISAGREEMENT
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

_MAX_VALUES = 20  # adapters up to which each node shows its speedup and depth
_MAX_BOLD = 10  # adapters with the most clear inversions of a load, drawn with heavy lines
_LINE_STYLES = {BLUE: "-", PURPLE: (0, (4, 1)), MUTED: "-"}


@dataclass(frozen=True)
class Inversions:
    """Pairs of adapters whose order by speedup at one load contradicts their order by acceptance."""

    num_pairs: int
    num_inverted: int
    num_clear: int


def count_inversions(at_load: pd.DataFrame) -> Inversions:
    """Return the pairs of one load; each stands in the table twice, won by one adapter and lost by the other.

    Raises
    ------
    ResultError
        What is won is not what is lost.
    """
    counts = {name: int(at_load[name].sum()) for name in ("num_won", "num_lost", "num_clear_won", "num_clear_lost")}
    if counts["num_won"] != counts["num_lost"] or counts["num_clear_won"] != counts["num_clear_lost"]:
        raise ResultError(
            f"table 'rank_disagreement', batch {at_load['load_batch_size'].iloc[0]}: inversions won and lost differ "
            f"({counts}); make the table again"
        )
    num_pairs = len(at_load) * (len(at_load) - 1) // 2
    return Inversions(num_pairs, counts["num_won"], counts["num_clear_won"])


@figure_of(RANK_DISAGREEMENT)
def draw_rank_disagreement(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return the ladder of ranks above, and below it speedup against acceptance with intervals, load by load."""
    loads = sorted(frame["load_batch_size"].unique())
    by_load = {load: frame[frame["load_batch_size"] == load] for load in loads}
    _check_complete(by_load)
    inversions = {load: count_inversions(part) for load, part in by_load.items()}
    num_adapters = frame["adapter"].nunique()
    ladder_in = 1.35 + num_adapters * (0.24 if num_adapters <= 20 else 0.125)
    fig = new_figure(ladder_in + 2.9)
    above, below = fig.subfigures(2, 1, height_ratios=[ladder_in, 2.1])
    _draw_ladder(above.subplots(), by_load)
    _write_headings(fig.axes[0], inversions)
    _draw_scatters(np.atleast_1d(below.subplots(1, len(loads), sharex=True)).tolist(), by_load)
    depth = frame["standing_num_speculative_tokens"].iloc[0]
    below.supxlabel(f"acceptance length at K = {depth} (tokens per draft step)", fontsize=7.5)
    legend_above(fig, _handles(), num_columns=2)
    add_footer(fig, context, f"n = {count_phrase(num_adapters, 'adapter')} at {count_phrase(len(loads), 'load')}")
    return fig


def _handles() -> list[Line2D]:
    words = {
        BLUE: "at this load clearly faster than one with more acceptance",
        PURPLE: "clearly slower than one with less acceptance",
        MUTED: "no clear disagreement at this load",
    }
    handles = [
        Line2D([], [], color=color, lw=0.9 if color == MUTED else 1.7, ls=_LINE_STYLES[color], label=label)
        for color, label in words.items()
    ]
    off = marker_handle("o", MUTED, "off is best: tied at 1, in the order of acceptance", is_hollow=True, size=3.4)
    return [handles[0], handles[2], handles[1], off]


def _check_complete(by_load: dict[int, pd.DataFrame]) -> None:
    """Refuse loads that hold different adapters or acceptances: ranks over different sets do not compare."""
    known = {load: dict(zip(part["adapter"], part["acceptance_length"], strict=True)) for load, part in by_load.items()}
    first_load, first = next(iter(known.items()))
    for load, found in known.items():
        if found != first:
            odd = sorted(name for name in found.keys() | first.keys() if found.get(name) != first.get(name))
            raise ResultError(
                f"table 'rank_disagreement': loads {first_load} and {load} differ in the adapters or in the "
                f"acceptance_length of {', '.join(odd)}; give every adapter one row per load with one acceptance"
            )


def _colors(part: pd.DataFrame) -> dict[str, str]:
    """Return the colour of each adapter at one load: who wins more clear inversions than it loses is blue."""
    won, lost = part["num_clear_won"].to_numpy(int), part["num_clear_lost"].to_numpy(int)
    shades = np.where(won + lost == 0, MUTED, np.where(won >= lost, BLUE, PURPLE))
    return dict(zip(part["adapter"], shades.tolist(), strict=True))


def _bold(part: pd.DataFrame) -> set[str]:
    """Return the adapters with the most clear inversions at one load."""
    num_clear = part.set_index("adapter")[["num_clear_won", "num_clear_lost"]].sum(axis=1)
    return set(num_clear[num_clear > 0].sort_values(ascending=False, kind="stable").index[:_MAX_BOLD])


def _positions(part: pd.DataFrame, rank: str) -> dict[str, int]:
    """Return the row of each adapter in one column; ties stand in the order of acceptance, so they never cross."""
    ordered = part.sort_values([rank, "acceptance_rank", "adapter"], kind="stable")
    return {name: row for row, name in enumerate(ordered["adapter"])}


def _draw_ladder(ax: Axes, by_load: dict[int, pd.DataFrame]) -> None:
    parts = list(by_load.values())
    columns = [_positions(parts[0], "acceptance_rank"), *(_positions(part, "throughput_rank") for part in parts)]
    for x, part in enumerate(parts, start=1):
        _draw_steps(ax, x, columns[x - 1], columns[x], part)
    for row in columns[0].values():
        ax.plot(0, row, "o", ms=2.6, color=MUTED, zorder=4)
    _label_ladder(ax, columns, parts[0], parts[-1])
    if len(columns[0]) <= _MAX_VALUES:
        _write_speedups(ax, parts, columns)
    ax.set_xlim(-0.06, len(columns) - 0.94)
    ax.set_ylim(len(columns[0]) - 0.4, -0.7)
    ax.spines[:].set_visible(False)


def _draw_steps(ax: Axes, x: int, before: dict[str, int], after: dict[str, int], part: pd.DataFrame) -> None:
    """Draw the lines that lead into one column and its nodes, all in the colours of that load alone."""
    colors, bold = _colors(part), _bold(part)
    is_off = dict(zip(part["adapter"], part["num_speculative_tokens"] == 0, strict=True))
    for name, row in after.items():
        color, is_bold = colors[name], name in bold
        ax.plot(
            (x - 1, x),
            (before[name], row),
            color=color,
            ls=_LINE_STYLES[color],
            lw=1.7 if is_bold else 0.8,
            zorder=3 if is_bold else 2,
        )
        face = "white" if is_off[name] else color
        ax.plot(x, row, "o", ms=3.4 if is_bold else 2.6, mfc=face, mec=color, mew=0.8, zorder=4)


def _write_headings(ax: Axes, inversions: dict[int, Inversions]) -> None:
    """Head each column with its load and its two counts; the first column says what the counts are."""
    headings = ["acceptance\nlength\n\npairs inverted:\nof them clear:"]
    headings += [
        f"best speedup\nat batch {load}\n\n{found.num_inverted:,} of {found.num_pairs:,}\n{found.num_clear}"
        for load, found in inversions.items()
    ]
    ax.set_xticks(range(len(headings)), headings, fontsize=6.5)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)


def _label_ladder(ax: Axes, columns: list[dict[str, int]], first: pd.DataFrame, last: pd.DataFrame) -> None:
    length = dict(zip(first["adapter"], first["acceptance_length"], strict=True))
    speedup = {row.adapter: _speedup_text(row) for row in last.itertuples()}
    colors = {name: INK if color == MUTED else color for name, color in _colors(last).items()}
    size = 7 if len(columns[0]) <= 20 else 6
    ax.set_yticks(
        list(columns[0].values()), [f"{shorten(name)}  {length[name]:.2f}" for name in columns[0]], fontsize=size
    )
    right = ax.secondary_yaxis("right")
    right.set_yticks(
        list(columns[-1].values()), [f"{speedup[name]}  {shorten(name)}" for name in columns[-1]], fontsize=size
    )
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    for tick, name in zip(right.yaxis.get_ticklabels(), columns[-1], strict=True):
        tick.set_color(colors[name])


def _speedup_text(row: Any) -> str:
    """Return the speedup with its depth, or that speculation is off, where no number says more than that."""
    if row.num_speculative_tokens == 0:
        return "off"
    return f"{row.speedup:.2f}\N{MULTIPLICATION SIGN} K={row.num_speculative_tokens}"


def _write_speedups(ax: Axes, parts: list[pd.DataFrame], columns: list[dict[str, int]]) -> None:
    """Write speedup and depth beside each node of the inner columns; the last column has them in its labels."""
    for x, (part, column) in enumerate(list(zip(parts, columns[1:], strict=True))[:-1], start=1):
        for row in part.itertuples():
            ax.annotate(
                _speedup_text(row),
                (x, column[row.adapter]),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=5.5,
                zorder=5,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.4},
            )


def _draw_scatters(axes: list[Axes], by_load: dict[int, pd.DataFrame]) -> None:
    low = min(part["lower"].min() for part in by_load.values())
    high = max(part["upper"].max() for part in by_load.values())
    margin = 0.06 * max(high - low, 0.1)
    for ax, (load, part) in zip(axes, by_load.items(), strict=True):
        ax.axhline(1, color=FAINT, lw=0.8, zorder=0)
        colors = _colors(part)
        shades = [colors[name] for name in part["adapter"]]
        faces = [
            "white" if depth == 0 else shade
            for depth, shade in zip(part["num_speculative_tokens"], shades, strict=True)
        ]
        ax.vlines(part["acceptance_length"], part["lower"], part["upper"], colors=shades, lw=1.0)
        ax.scatter(part["acceptance_length"], part["speedup"], c=faces, edgecolors=shades, lw=0.8, s=9, zorder=3)
        ax.set_ylim(min(low, 1) - margin, max(high, 1) + margin)
        ax.set_title(f"batch {load}", loc="left")
        ax.margins(x=0.08)
        ax.xaxis.set_major_locator(MaxNLocator(3))
        if ax is not axes[0]:
            ax.tick_params(labelleft=False)
    axes[0].set_ylabel("best speedup (ratio to off)")
