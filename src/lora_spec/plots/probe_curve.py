"""Figure 4b: what calibration prompts buy and what they cost, with and without the other signals of the probe."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from lora_spec.plots.context import FigureContext
from lora_spec.plots.schemas import PROBE_CURVE
from lora_spec.plots.style import (
    BLUE,
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

_SHIFT = 1.06  # of the two marks of one size, to either side, so that their bars do not cover each other
_COLOURS = {"direct_probe": PURPLE, "predictor": BLUE}


@figure_of(PROBE_CURVE)
def draw_probe_curve(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return Spearman by prompts, the paired difference by prompts, and Spearman by seconds."""
    fig = new_figure(3.0)
    by_size, difference, by_cost = fig.subplots(1, 3)
    for name in _COLOURS:
        part = frame[frame["contender"] == name].sort_values("num_prompts")
        _draw_sizes(by_size, part, name, shift=_SHIFT if name == "predictor" else 1 / _SHIFT)
        _draw_costs(by_cost, part, name)
    _draw_difference(difference, frame[frame["contender"] == "difference"].sort_values("num_prompts"))
    free = frame["without_probe"].iloc[0]
    for ax in (by_size, by_cost):
        if pd.notna(free):
            ax.axhline(free, color=MUTED, lw=0.9, ls=(0, (3, 1.5)), zorder=1)
        ax.set_ylim(top=1.05)
        ax.set_ylabel("Spearman (\N{MINUS SIGN}1 to 1)")
    difference.set_ylabel("predictor less direct probe (Spearman)")
    for ax in (by_size, difference):
        _number_prompts(ax, sorted(set(frame["num_prompts"])))
    _number_seconds(by_cost)
    legend_above(fig, _handles(frame), num_columns=3)
    add_footer(fig, context, _count(frame))
    return fig


def _draw_sizes(ax: Axes, part: pd.DataFrame, name: str, *, shift: float) -> None:
    known = part.dropna(subset=["estimate"])
    x = known["num_prompts"].to_numpy(float) * shift
    ax.vlines(x, known["lower"], known["upper"], color=_COLOURS[name], lw=1.0, zorder=2)
    ax.plot(x, known["estimate"], color=_COLOURS[name], lw=0.8, zorder=2)
    _mark(ax, x, known["estimate"], name)


def _draw_difference(ax: Axes, part: pd.DataFrame) -> None:
    known = part.dropna(subset=["estimate"])
    ax.axhline(0, color=INK, lw=0.8, zorder=1)
    ax.vlines(known["num_prompts"], known["lower"], known["upper"], color=BLUE, lw=1.0, zorder=2)
    ax.plot(known["num_prompts"], known["estimate"], "o-", color=BLUE, ms=4, lw=0.8, zorder=3)


def _draw_costs(ax: Axes, part: pd.DataFrame, name: str) -> None:
    known = part.dropna(subset=["estimate"])
    ax.hlines(known["estimate"], known["lower_cpu_s"], known["upper_cpu_s"], color=_COLOURS[name], lw=1.2, zorder=2)
    middle = (known["lower_cpu_s"] * known["upper_cpu_s"]) ** 0.5
    _mark(ax, middle, known["estimate"], name)


def _mark(ax: Axes, x: object, y: object, name: str) -> None:
    is_null = name == "direct_probe"
    ax.plot(x, y, "o", ms=4, mfc="white" if is_null else BLUE, mec=_COLOURS[name], zorder=3)


def _number_prompts(ax: Axes, sizes: list[int]) -> None:
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(sizes))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
    ax.set_xlabel("calibration prompts (count)")


def _number_seconds(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_minor_locator(NullLocator())
    # In digits: the house style sets no formulas, which powers of ten would be.
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel("cost per adapter (core-seconds)")


def _handles(frame: pd.DataFrame) -> list[Line2D]:
    first = frame.iloc[0]
    handles = [
        marker_handle("o", PURPLE, "direct probe", is_hollow=True),
        marker_handle("o", BLUE, f"{first['predictor']} on all signals (checkpoint_calib)"),
    ]
    if pd.notna(first["without_probe"]):
        label = f"{first['predictor']} without a probe ({first['without_probe_mode']})"
        handles.append(Line2D([], [], color=MUTED, lw=0.9, ls=(0, (3, 1.5)), label=label))
    return handles


def _count(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    adapters = count_phrase(int(first["num_adapters"]), "adapter")
    sources = count_phrase(int(first["num_sources"]), "source")
    return (
        f"n = {adapters} from {sources}, each guessed with its source left out, K = {first['num_speculative_tokens']}"
    )
