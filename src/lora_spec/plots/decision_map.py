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
    new_figure,
)

_MAP_ALPHA = 0.75
_MIN_SHARE_FOR_TEXT = 0.05  # of the map's width, for a depth written out in its region
_MIN_SHARE_FOR_DIGIT = 0.018  # for the bare number
_LABELS = {
    "green": "green: speculate as today",
    "amber": "amber: shorter depth",
    "red": "red: speculation off",
    "abstain": "?: abstain, the adapter's intervals leave the choice open",
}


@figure_of(DECISION_MAP)
def draw_decision_map(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return the map below; above, on the same axis, the adapters' acceptance, and beside it what is best for each."""
    cells, adapters = (frame[frame["kind"] == kind] for kind in ("cell", "adapter"))
    _check_parts(cells, adapters)
    loads = sorted(frame["load_batch_size"].unique())
    num_adapters = adapters["adapter"].nunique()
    forest_in = 0.25 + num_adapters * (0.17 if num_adapters <= 20 else 0.118)
    map_in = 0.25 + len(loads) * 0.3
    fig = new_figure(1.55 + map_in + forest_in)
    grid = fig.add_gridspec(2, 2, height_ratios=[forest_in, map_in], width_ratios=[1, 0.05 + 0.055 * len(loads)])
    top = fig.add_subplot(grid[0, 0])
    bottom = fig.add_subplot(grid[1, 0], sharex=top)
    beside = fig.add_subplot(grid[0, 1], sharey=top)
    _draw_map(bottom, cells, loads)
    bottom.vlines(adapters["acceptance_length"].unique(), -0.5, len(loads) - 0.5, color=INK, lw=0.5, alpha=0.45)
    _draw_forest(top, adapters)
    _draw_actions(beside, adapters, loads, _deepest(cells))
    depth = frame["standing_num_speculative_tokens"].iloc[0]
    bottom.set_xlim(1 - 0.03 * depth, depth + 1)
    bottom.set_xlabel(f"acceptance length at the standing depth K = {depth} (tokens per draft step)")
    top.tick_params(labelbottom=False)
    legend_above(fig, _handles(cells, adapters), num_columns=3)
    add_footer(
        fig, context, f"n = {count_phrase(num_adapters, 'adapter')} at {count_phrase(len(loads), 'load')}; {_RULE}"
    )
    return fig


# Else an adapter whose column says another depth than the ground under its line looks like a mistake.
_RULE = (
    "ground: the best depth if all drafted tokens were equally likely to be accepted; columns: the best one of the "
    "adapter, from its acceptance by position, so the two can differ"
)


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
    strength = 1.0 if pd.isna(depth) or depth == 0 or deepest < 2 else 0.35 + 0.65 * (int(depth) - 1) / (deepest - 1)
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
            text = _depth_text(depth, is_short=end - start <= _MIN_SHARE_FOR_TEXT * width)
            if end - start > _MIN_SHARE_FOR_DIGIT * width:
                ax.text((start + end) / 2, row, text, ha="center", va="center_baseline", fontsize=6, color=INK)
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


def _depth_text(depth: object, *, is_short: bool) -> str:
    if pd.isna(depth):
        return "?"
    if depth == 0:
        return "0" if is_short else "off"
    return f"{depth}" if is_short else f"K = {depth}"


def _draw_actions(ax: Axes, adapters: pd.DataFrame, loads: list[int], deepest: int) -> None:
    """Draw what is best for each adapter at each load, row by row beside its acceptance."""
    order = {name: row for row, name in enumerate(_by_acceptance(adapters))}
    size = 6 if len(order) <= 20 else 5
    for row in adapters.itertuples():
        x, y, depth = loads.index(row.load_batch_size), order[row.adapter], row.num_speculative_tokens
        color = _shade(row.action, depth, max(deepest, 0 if pd.isna(depth) else int(depth)))
        ax.add_patch(Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, fc=color, lw=0))
        text = _depth_text(depth, is_short=False).removeprefix("K = ")
        ax.text(x, y, text, ha="center", va="center_baseline", fontsize=size, color=INK)
    ax.set_xlim(-0.55, len(loads) - 0.45)
    ax.set_xticks(range(len(loads)), [str(load) for load in loads])
    ax.tick_params(length=0, labelleft=False)
    ax.set_xlabel("batch (requests)")
    ax.set_title("best K", loc="left")
    for side in ax.spines.values():
        side.set_visible(False)


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
    """Return a patch for each action that occurs, on the ground or beside an adapter."""
    deepest = _deepest(cells)
    shown = pd.concat([cells, adapters])
    depths = {action: part["num_speculative_tokens"].max() for action, part in shown.groupby("action")}
    return [
        Patch(fc=_shade(action, depths[action], max(deepest, 1)), label=_LABELS[action])
        for action in ACTION_STYLES
        if action in depths
    ]
