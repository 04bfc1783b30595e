"""Figure 6: the best action for each acceptance length and load, with the adapters of the tier on it."""

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from lora_spec.errors import ResultError
from lora_spec.plots.actions import ACTION_STYLES
from lora_spec.plots.context import FigureContext
from lora_spec.plots.labels import shorten
from lora_spec.plots.schemas import DECISION_MAP
from lora_spec.plots.style import (
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

_MAP_ALPHA = 0.75
_MIN_SHARE_FOR_TEXT = 0.05  # of the map's width, for a depth written into its region


@figure_of(DECISION_MAP)
def draw_decision_map(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return the map below and the adapters' acceptance lengths with intervals above, on one axis."""
    cells, adapters = (frame[frame["kind"] == kind] for kind in ("cell", "adapter"))
    _check_parts(cells, adapters)
    loads = sorted(frame["load_batch_size"].unique())
    num_adapters = adapters["adapter"].nunique()
    forest_in = 0.25 + num_adapters * (0.17 if num_adapters <= 20 else 0.118)
    map_in = 0.25 + len(loads) * (0.42 if num_adapters <= 20 else 0.55)
    fig = new_figure(1.35 + map_in + forest_in)
    top, bottom = fig.subplots(2, 1, sharex=True, height_ratios=[forest_in, map_in])
    _draw_map(bottom, cells, loads)
    _draw_adapters_on_map(bottom, adapters, loads)
    _draw_forest(top, adapters)
    depth = frame["standing_num_speculative_tokens"].iloc[0]
    bottom.set_xlabel(f"acceptance length at the standing depth K = {depth} (tokens per draft step)")
    handles = _handles(cells, adapters)
    legend_above(fig, handles, num_columns=len(handles) // 2)
    # Else a marker beyond a border looks like a mistake.
    rule = "borders: every draft token equally likely to be accepted; markers: acceptance as measured by position"
    counted = f"n = {count_phrase(num_adapters, 'adapter')} at {count_phrase(len(loads), 'load')}"
    add_footer(fig, context, f"{counted}; {rule}")
    return fig


def _check_parts(cells: pd.DataFrame, adapters: pd.DataFrame) -> None:
    if cells.empty or adapters.empty:
        raise ResultError("table 'decision_map' needs rows of both kinds, cell and adapter")
    if adapters[["adapter", "mode", "lower", "upper"]].isna().any(axis=None):
        raise ResultError("table 'decision_map': a row of kind adapter needs adapter, mode, lower and upper")


def _deepest(cells: pd.DataFrame) -> int:
    """Return the largest best depth of the map; 0 where every cell abstains."""
    depths = cells["num_speculative_tokens"].dropna()
    return int(depths.max()) if len(depths) else 0


def _shade(action: str, depth: object, deepest: int) -> tuple[float, float, float]:
    """Return the action's colour, paler for smaller depths, so that depths of one action can be told apart."""
    base = np.array(to_rgb(ACTION_STYLES[action].color))
    strength = 1.0 if pd.isna(depth) or depth == 0 else 0.4 + 0.6 * int(depth) / deepest
    return tuple(1 - _MAP_ALPHA * strength * (1 - base))


def _draw_map(ax: Axes, cells: pd.DataFrame, loads: list[int]) -> None:
    deepest = _deepest(cells)
    width = cells["acceptance_length"].max() - cells["acceptance_length"].min()
    for row, load in enumerate(loads):
        for start, end, action, depth in _runs(cells[cells["load_batch_size"] == load]):
            box = Rectangle(
                (start, row - 0.48), end - start, 0.96, fc=_shade(action, depth, deepest), ec="white", lw=0.8
            )
            ax.add_patch(box)
            if end - start > _MIN_SHARE_FOR_TEXT * width:
                text = action if pd.isna(depth) else f"K = {depth}"
                ax.text((start + end) / 2, row - 0.44, text, ha="center", va="bottom", fontsize=6, color=INK)
    ax.set_yticks(range(len(loads)), [str(load) for load in loads])
    ax.set_ylim(-0.5, len(loads) - 0.5)
    ax.set_ylabel("load (batch size)")


def _runs(row: pd.DataFrame) -> list[tuple[float, float, str, object]]:
    """Return the stretches of equal action and depth along one load, as (start, end, action, depth)."""
    row = row.sort_values("acceptance_length")
    x = row["acceptance_length"].to_numpy(float)
    edges = np.concatenate([x[:1], (x[1:] + x[:-1]) / 2, x[-1:]])
    runs: list[tuple[float, float, str, object]] = []
    for index, (action, depth) in enumerate(zip(row["action"], row["num_speculative_tokens"], strict=True)):
        is_same = bool(runs) and runs[-1][2] == action and (runs[-1][3] is depth or runs[-1][3] == depth)
        start = runs.pop()[0] if is_same else edges[index]
        runs.append((start, edges[index + 1], action, depth))
    return runs


def _draw_adapters_on_map(ax: Axes, adapters: pd.DataFrame, loads: list[int]) -> None:
    """Draw each adapter in the band of its load, at the height of its place in the order, so that few cover others."""
    order = {name: rank for rank, name in enumerate(_by_acceptance(adapters))}
    num_lanes = 1 if len(order) <= 8 else 3
    for action, part in adapters.groupby("action"):
        style = ACTION_STYLES[action]
        lane = part["adapter"].map(order).to_numpy(int) % num_lanes
        y = part["load_batch_size"].map(loads.index).to_numpy(float) + 0.1 + 0.24 * (lane - (num_lanes - 1) / 2)
        ax.plot(part["acceptance_length"], y, style.marker, ms=4.5, mfc=style.color, mec=INK, mew=0.7, ls="", zorder=4)


def _by_acceptance(adapters: pd.DataFrame) -> list[str]:
    return list(adapters.sort_values(["acceptance_length", "adapter"])["adapter"].unique())


def _draw_forest(ax: Axes, adapters: pd.DataFrame) -> None:
    order = _by_acceptance(adapters)
    first = adapters.drop_duplicates("adapter").set_index("adapter").loc[order]
    y = np.arange(len(order))
    ax.hlines(y, first["lower"], first["upper"], color=MUTED, lw=1.1)
    ax.plot(first["acceptance_length"], y, "|", ms=6, mew=1.4, color=INK)
    ax.set_yticks(y, [shorten(name) for name in order], fontsize=7 if len(order) <= 20 else 6)
    ax.set_ylim(-0.7, len(order) - 0.3)
    ax.grid(axis="x", color=FAINT, lw=0.5)
    ax.set_axisbelow(True)
    ax.tick_params(axis="y", length=0)
    modes = " and ".join(sorted(adapters["mode"].unique()))
    ax.set_title(f"acceptance of the adapters ({modes})", loc="left")


def _handles(cells: pd.DataFrame, adapters: pd.DataFrame) -> list[Artist]:
    """Return a patch and a marker for each action that occurs, in pairs, since a legend fills column by column."""
    deepest = _deepest(cells)
    handles: list[Artist] = []
    for action, style in ACTION_STYLES.items():
        if action in set(cells["action"]) | set(adapters["action"]):
            handles.append(Patch(fc=_shade(action, deepest, deepest), label=style.label))
            handles.append(marker_handle(style.marker, style.color, f"adapter: {action}"))
    return handles
