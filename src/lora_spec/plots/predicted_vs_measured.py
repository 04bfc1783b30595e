"""Figure 3: acceptance length predicted from a checkpoint against the measured one, one facet per feature mode."""

import textwrap
from typing import get_args

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lora_spec.plots.context import FigureContext
from lora_spec.plots.labels import place_labels, shorten
from lora_spec.plots.schemas import PREDICTED_VS_MEASURED
from lora_spec.plots.style import (
    BLUE,
    INK,
    MUTED,
    add_footer,
    count_phrase,
    figure_of,
    freeze_layout,
    legend_above,
    marker_handle,
    new_figure,
)
from lora_spec.records import Mode

_MAX_LABELS = 6  # per facet with many adapters, worst predictions first
_MAX_ALL_LABELLED = 8  # adapters in a facet that still leave room to name each
_TITLE_CHARACTERS = 36  # of a heading's line, as many as a narrow facet is wide
_POINTS_PER_LINE = 40  # that a label must not cover


@figure_of(PREDICTED_VS_MEASURED)
def draw_predicted_vs_measured(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return the facets with a common scale, the diagonal and the intervals of both sides."""
    modes = [mode for mode in get_args(Mode) if mode in set(frame["mode"])]
    num_columns = 2 if len(modes) == 4 else min(len(modes), 3)
    num_rows = -(-len(modes) // num_columns)
    side_in = min(6.7 / num_columns, 3.4)
    fig = new_figure(1.1 + num_rows * (side_in + 0.85), width_in=max(4.2, 0.2 + num_columns * side_in))
    axes = fig.subplots(num_rows, num_columns, squeeze=False, sharex=True, sharey=True).ravel()
    limits = _limits(frame)
    depth = frame["num_speculative_tokens"].iloc[0]
    for ax, mode in zip(axes, modes, strict=False):
        _draw_facet(ax, frame[frame["mode"] == mode], limits)
        ax.set_title(
            f"{mode}, K = {depth}\n{_summary(frame[frame['mode'] == mode])}", loc="left", fontsize=6.5, linespacing=1.35
        )
    for ax in axes[len(modes) :]:
        ax.remove()
    for index, ax in enumerate(axes[: len(modes)]):
        if index % num_columns == 0:
            ax.set_ylabel("predicted acceptance length (tokens)")
        if index + num_columns >= len(modes):
            ax.set_xlabel("measured acceptance length (tokens)")
            ax.tick_params(labelbottom=True)
    handles = _handles(frame, limits)
    legend_above(fig, handles, num_columns=3 if len(modes) > 1 else 2)
    add_footer(fig, context, _count(frame))
    freeze_layout(fig)
    for ax, mode in zip(axes, modes, strict=False):
        _label_facet(ax, frame[frame["mode"] == mode], limits)
    return fig


def _limits(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the common range of both axes; intervals far outside the measured range are cut, not the points."""
    points = frame[["measured", "predicted", "measured_lower", "measured_upper"]].to_numpy(float)
    low, high = np.nanmin(points), np.nanmax(points)
    margin = 0.12 * max(high - low, 0.2)
    # No acceptance length lies below 1; a hair of room keeps a marker there whole.
    return max(low - margin, 1 - 0.25 * margin), high + margin


def _handles(frame: pd.DataFrame, limits: tuple[float, float]) -> list[Line2D]:
    """Return a legend entry for whatever the panels show, and for nothing else."""
    shown = frame.dropna(subset=["predicted"])
    judged = shown["is_abstained"].dropna()
    faces = ((False, "the gate would act on it"), (True, "the gate abstains"))
    handles = [marker_handle("o", BLUE, label, is_hollow=flag) for flag, label in faces if flag in set(judged)]
    if len(judged) < len(shown):
        handles.append(marker_handle("o", MUTED, "not given to the gate: a point alone"))
    if shown["predicted_lower"].notna().any():
        handles.append(marker_handle("|", MUTED, "predicted interval", size=9))
    handles.append(marker_handle("_", MUTED, "measured interval", size=9))
    if (shown["predicted_upper"] > limits[1]).any() or (shown["predicted_lower"] < limits[0]).any():
        handles.append(marker_handle("^", MUTED, "it goes on beyond the frame", size=3.5))
    return handles


def _draw_facet(ax: Axes, part: pd.DataFrame, limits: tuple[float, float]) -> None:
    shown = part.dropna(subset=["predicted"])
    ax.plot(limits, limits, color=INK, lw=0.7, ls=(0, (4, 2)), zorder=1)
    bars = {"color": MUTED, "lw": 0.8, "alpha": 0.7 if len(part) <= 20 else 0.45, "zorder": 2}
    ax.vlines(shown["measured"], shown["predicted_lower"], shown["predicted_upper"], **bars)
    ax.hlines(shown["predicted"], shown["measured_lower"], shown["measured_upper"], **bars)
    for marker, edge, points in (
        ("^", limits[1], shown[shown["predicted_upper"] > limits[1]]),
        ("v", limits[0], shown[shown["predicted_lower"] < limits[0]]),
    ):
        for x in points["measured"]:
            (arrow,) = ax.plot(x, edge, marker, ms=3.5, color=MUTED, clip_on=False)
            arrow.set_in_layout(False)
    judgement = shown["is_abstained"].astype(object).where(shown["is_abstained"].notna(), "not asked")
    for is_abstained, points in shown.groupby(judgement):
        edge, face = {True: (BLUE, "white"), False: (BLUE, BLUE), "not asked": (MUTED, MUTED)}[is_abstained]
        ax.plot(points["measured"], points["predicted"], "o", ms=4, mfc=face, mec=edge, mew=0.9, zorder=3)
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5))


def _summary(part: pd.DataFrame) -> str:
    """Return what the facet holds: counts, mean absolute error, and how often the interval held."""
    shown = part.dropna(subset=["predicted"])
    judged = part["is_abstained"].dropna()
    lines = [f"n = {len(part)}" + (f", {int(judged.sum())} abstained" if len(judged) else "")]
    if len(shown) < len(part):
        lines[0] += f", {len(part) - len(shown)} without prediction"
    if len(shown):
        error = (shown["predicted"] - shown["measured"]).abs()
        lines.append(f"mean |error| {error.mean():.2f} tokens")
        if shown["predicted_lower"].notna().any():
            lines.append(_coverage(shown))
        if len(shown) > _MAX_ALL_LABELLED:
            lines.append(f"named: the {_MAX_LABELS} worst predictions")
    return "\n".join(textwrap.fill(line, _TITLE_CHARACTERS) for line in lines)


def _coverage(shown: pd.DataFrame) -> str:
    """Return how often the interval held; one that is all that is possible, 1 to K + 1, holds by itself."""
    longest = shown["num_speculative_tokens"] + 1
    is_vacuous = (shown["predicted_lower"] <= 1) & (shown["predicted_upper"] >= longest)
    telling = shown[~is_vacuous]
    num_inside = int(telling["measured"].between(telling["predicted_lower"], telling["predicted_upper"]).sum())
    if telling.empty:
        return "every interval is the whole possible range: it says nothing"
    rest = f"; {int(is_vacuous.sum())} are the whole possible range" if is_vacuous.any() else ""
    return f"{num_inside} of {len(telling)} intervals hold the measured value{rest}"


def _label_facet(ax: Axes, part: pd.DataFrame, limits: tuple[float, float]) -> None:
    shown = part.dropna(subset=["predicted"])
    error = (shown["predicted"] - shown["measured"]).abs()
    num_labels = len(shown) if len(shown) <= _MAX_ALL_LABELLED else _MAX_LABELS
    worst = shown.loc[error.sort_values(ascending=False, kind="stable").index[:num_labels]]
    place_labels(
        ax,
        worst[["measured", "predicted"]].to_numpy(float),
        [shorten(name, 20) for name in worst["adapter"]],
        marks=shown[["measured", "predicted"]].to_numpy(float),
        lines=_points_on_lines(shown, limits),
    )


def _points_on_lines(shown: pd.DataFrame, limits: tuple[float, float]) -> np.ndarray:
    """Return points along the diagonal and all intervals, shape (num_points, 2)."""
    shown = shown.fillna(dict.fromkeys(("predicted_lower", "predicted_upper"), shown["predicted"]))
    x, x_low, x_high, y, y_low, y_high = (
        shown[name].to_numpy(float)
        for name in ("measured", "measured_lower", "measured_upper", "predicted", "predicted_lower", "predicted_upper")
    )
    diagonal = np.repeat(np.linspace(*limits, 4 * _POINTS_PER_LINE)[:, None], 2, axis=1)
    upright = np.linspace(y_low, y_high, _POINTS_PER_LINE)
    level = np.linspace(x_low, x_high, _POINTS_PER_LINE)
    return np.concatenate(
        [
            diagonal,
            np.stack([np.broadcast_to(x, upright.shape), upright], axis=-1).reshape(-1, 2),
            np.stack([level, np.broadcast_to(y, level.shape)], axis=-1).reshape(-1, 2),
        ]
    )


def _count(frame: pd.DataFrame) -> str:
    adapters = count_phrase(frame["adapter"].nunique(), "adapter")
    sources = count_phrase(frame["source"].nunique(), "source")
    return f"n = {adapters} from {sources}, each predicted with its source left out"
