"""Figure 5: the order of adapters by acceptance against their order by speedup at each load."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

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
    new_figure,
)

_MAX_VALUES = 12  # adapters up to which each node shows its speedup
_MAX_BOLD = 10  # adapters with the most clear inversions, drawn with heavy lines
_LINE_STYLES = {BLUE: "-", PURPLE: (0, (4, 1)), MUTED: "-"}


@dataclass(frozen=True)
class Inversions:
    """Pairs of adapters whose order by speedup at one load contradicts their order by acceptance.

    ``resolved`` are those where the intervals of the two speedups do not touch, as (faster, slower).
    """

    num_pairs: int
    num_inverted: int
    resolved: tuple[tuple[str, str], ...]


def count_inversions(at_load: pd.DataFrame) -> Inversions:
    """Return the pairs of one load in which more acceptance goes with less speedup; ties are no inversion."""
    acceptance = at_load["acceptance_length"].to_numpy(float)
    speedup = at_load["speedup"].to_numpy(float)
    accepts_more = acceptance[:, None] > acceptance[None, :]
    is_inverted = accepts_more & (speedup[:, None] < speedup[None, :])
    is_clear = is_inverted & (at_load["upper"].to_numpy(float)[:, None] < at_load["lower"].to_numpy(float)[None, :])
    names = at_load["adapter"].to_numpy(object)
    resolved = tuple((names[fast], names[slow]) for slow, fast in zip(*np.nonzero(is_clear), strict=True))
    num_pairs = len(at_load) * (len(at_load) - 1) // 2
    return Inversions(num_pairs, int(is_inverted.sum()), resolved)


@figure_of(RANK_DISAGREEMENT)
def draw_rank_disagreement(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return the ladder of ranks above, and below it speedup against acceptance with intervals, load by load."""
    loads = sorted(frame["load_batch_size"].unique())
    by_load = {load: frame[frame["load_batch_size"] == load] for load in loads}
    _check_complete(by_load)
    inversions = {load: count_inversions(part) for load, part in by_load.items()}
    balance = _balance(inversions)
    colors = {name: BLUE if wins >= 0 else PURPLE for name, wins in balance.items()}
    bold = set(sorted(balance, key=lambda name: (-abs(balance[name]), name))[:_MAX_BOLD])
    num_adapters = frame["adapter"].nunique()
    ladder_in = 0.75 + num_adapters * (0.24 if num_adapters <= 20 else 0.125)
    fig = new_figure(ladder_in + 2.9)
    grid = fig.add_gridspec(2, len(loads), height_ratios=[ladder_in, 1.8])
    _draw_ladder(fig.add_subplot(grid[0, :]), by_load, colors, bold)
    _write_headings(fig.axes[0], inversions)
    _draw_scatters([fig.add_subplot(grid[1, index]) for index in range(len(loads))], by_load, colors)
    _label_across(fig.add_subplot(grid[1, :], frameon=False), "acceptance length (tokens per draft step)")
    handles = [
        Line2D([], [], color=BLUE, lw=1.7, ls=_LINE_STYLES[BLUE], label="clearly faster than one with more acceptance"),
        Line2D(
            [], [], color=PURPLE, lw=1.7, ls=_LINE_STYLES[PURPLE], label="clearly slower than one with less acceptance"
        ),
        Line2D([], [], color=MUTED, lw=0.9, label="no clear disagreement"),
    ]
    legend_above(fig, handles, num_columns=3)
    add_footer(fig, context, f"n = {count_phrase(num_adapters, 'adapter')} at {count_phrase(len(loads), 'load')}")
    return fig


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


def _balance(inversions: dict[int, Inversions]) -> dict[str, int]:
    """Return, for each adapter in a resolved inversion, how many more of them it wins than loses over all loads."""
    balance: dict[str, int] = {}
    for found in inversions.values():
        for fast, slow in found.resolved:
            balance[fast] = balance.get(fast, 0) + 1
            balance[slow] = balance.get(slow, 0) - 1
    return balance


def _positions(part: pd.DataFrame, rank: str) -> dict[str, int]:
    """Return the row of each adapter in one column; ties stand in the order of acceptance, so they never cross."""
    ordered = part.sort_values([rank, "acceptance_rank", "adapter"], kind="stable")
    return {name: row for row, name in enumerate(ordered["adapter"])}


def _draw_ladder(ax: Axes, by_load: dict[int, pd.DataFrame], colors: dict[str, str], bold: set[str]) -> None:
    parts = list(by_load.values())
    first, last = parts[0], parts[-1]
    columns = [_positions(first, "acceptance_rank")]
    columns += [_positions(part, "throughput_rank") for part in by_load.values()]
    for name in columns[0]:
        rows = [column[name] for column in columns]
        color = colors.get(name, MUTED)
        is_bold = name in bold
        width, zorder = (1.7, 3) if is_bold else (0.8, 2)
        ax.plot(range(len(columns)), rows, color=color, ls=_LINE_STYLES[color], lw=width, zorder=zorder)
        ax.plot(range(len(columns)), rows, "o", ms=3.4 if is_bold else 2.6, color=color, zorder=4)
    _label_ladder(ax, columns, first, last, colors)
    if len(columns[0]) <= _MAX_VALUES:
        _write_speedups(ax, by_load, columns)
    ax.set_xlim(-0.06, len(columns) - 0.94)
    ax.set_ylim(len(columns[0]) - 0.4, -0.7)
    ax.spines[:].set_visible(False)


def _write_headings(ax: Axes, inversions: dict[int, Inversions]) -> None:
    """Head each column with its load and its two counts; the first column says what the counts are."""
    headings = ["acceptance\nlength\n\npairs inverted:\nof them clear:"]
    headings += [
        f"speedup\nat batch {load}\n\n{found.num_inverted:,} of {found.num_pairs:,}\n{len(found.resolved)}"
        for load, found in inversions.items()
    ]
    ax.set_xticks(range(len(headings)), headings, fontsize=6.5)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)


def _label_across(ax: Axes, label: str) -> None:
    """Give a row of panels one common label, on an otherwise invisible axis behind them."""
    ax.set_zorder(-1)
    ax.set_xticks([0], [" "])
    ax.set_yticks([])
    ax.tick_params(length=0)
    ax.set_xlabel(label, labelpad=6)


def _label_ladder(
    ax: Axes, columns: list[dict[str, int]], first: pd.DataFrame, last: pd.DataFrame, colors: dict[str, str]
) -> None:
    length = dict(zip(first["adapter"], first["acceptance_length"], strict=True))
    speedup = dict(zip(last["adapter"], last["speedup"], strict=True))
    size = 7 if len(columns[0]) <= 20 else 6
    ax.set_yticks(
        list(columns[0].values()), [f"{shorten(name)}  {length[name]:.2f}" for name in columns[0]], fontsize=size
    )
    right = ax.secondary_yaxis("right")
    right.set_yticks(
        list(columns[-1].values()),
        [f"{speedup[name]:.2f}\N{MULTIPLICATION SIGN}  {shorten(name)}" for name in columns[-1]],
        fontsize=size,
    )
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    for axis, column in ((ax.yaxis, columns[0]), (right.yaxis, columns[-1])):
        for tick, name in zip(axis.get_ticklabels(), column, strict=True):
            tick.set_color(colors.get(name, INK))


def _write_speedups(ax: Axes, by_load: dict[int, pd.DataFrame], columns: list[dict[str, int]]) -> None:
    """Write the speedup beside each node of the inner columns; the last column has it in its labels."""
    for x, (part, column) in enumerate(list(zip(by_load.values(), columns[1:], strict=True))[:-1], start=1):
        for name, value in zip(part["adapter"], part["speedup"], strict=True):
            ax.annotate(
                f"{value:.2f}\N{MULTIPLICATION SIGN}",
                (x, column[name]),
                xytext=(0, 4),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=6,
                zorder=5,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6},
            )


def _draw_scatters(axes: list[Axes], by_load: dict[int, pd.DataFrame], colors: dict[str, str]) -> None:
    low = min(part["lower"].min() for part in by_load.values())
    high = max(part["upper"].max() for part in by_load.values())
    margin = 0.06 * max(high - low, 0.1)
    for ax, (load, part) in zip(axes, by_load.items(), strict=True):
        ax.axhline(1, color=FAINT, lw=0.8, zorder=0)
        shades = [colors.get(name, MUTED) for name in part["adapter"]]
        ax.vlines(part["acceptance_length"], part["lower"], part["upper"], colors=shades, lw=1.0)
        ax.scatter(part["acceptance_length"], part["speedup"], c=shades, s=9, zorder=3)
        ax.set_ylim(min(low, 1) - margin, max(high, 1) + margin)
        ax.set_title(f"batch {load}", loc="left")
        if ax is not axes[0]:
            ax.tick_params(labelleft=False)
    axes[0].set_ylabel("speedup (ratio to off)")
