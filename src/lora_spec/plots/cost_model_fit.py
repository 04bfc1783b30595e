"""Figure 7: the cost model's step times against the measured ones, cell by cell, beside the run-to-run spread."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from lora_spec.plots.context import FigureContext
from lora_spec.plots.schemas import COST_MODEL_FIT
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
    range_phrase,
)

_RULE = "the line of parts is shown; verdicts use each measured cell, pulled to the line only as far as it is noisy"
_MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")


@figure_of(COST_MODEL_FIT)
def draw_cost_model_fit(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return predicted against measured step time on the left, and the error in percent per cell on the right."""
    looks = _looks(sorted(frame["num_speculative_tokens"].unique()))
    fig = new_figure(3.6)
    left, right = fig.subplots(1, 2, width_ratios=[1, 1.35])
    _draw_times(left, frame, looks)
    _draw_errors(right, frame, looks)
    handles = [marker_handle(marker, color, f"K = {depth}") for depth, (color, marker) in looks.items()]
    if frame["is_held_out"].any():
        handles.append(marker_handle("o", INK, "held out", is_hollow=True))
    if not frame["is_held_out"].all():
        handles.append(marker_handle("o", INK, "fitted"))
    handles.append(Patch(fc=FAINT, label="slowest and fastest trial"))
    legend_above(fig, handles, num_columns=len(handles) if len(handles) <= 9 else -(-len(handles) // 2))
    add_footer(fig, context, _count(frame))
    return fig


def _looks(depths: list[int]) -> dict[int, tuple[tuple[float, ...], str]]:
    """Return colour and marker of each depth; viridis stays ordered for every kind of colour vision."""
    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.88, len(depths)))
    return {depth: (tuple(shades[index]), _MARKERS[index % len(_MARKERS)]) for index, depth in enumerate(depths)}


def _draw_times(ax: Axes, frame: pd.DataFrame, looks: dict) -> None:
    times = frame[["measured_ms", "predicted_ms", "lower_ms", "upper_ms"]].to_numpy(float)
    low, high = times.min() / 1.15, times.max() * 1.15
    ax.plot((low, high), (low, high), color=INK, lw=0.7, ls=(0, (4, 2)), zorder=1)
    ax.hlines(frame["predicted_ms"], frame["lower_ms"], frame["upper_ms"], color=MUTED, lw=1.2, zorder=2)
    _draw_points(ax, frame, frame["measured_ms"].to_numpy(float), frame["predicted_ms"].to_numpy(float), looks)
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 15 * low else (1, 1.5, 2, 3, 5, 7)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    ax.set_xlabel("measured step time (ms, log scale)")
    ax.set_ylabel("predicted step time (ms, log scale)")


def _draw_points(ax: Axes, frame: pd.DataFrame, x: np.ndarray, y: np.ndarray, looks: dict) -> None:
    size = 4.2 if len(frame) <= 40 else 3.2
    for index, (depth, is_held_out) in enumerate(
        zip(frame["num_speculative_tokens"], frame["is_held_out"], strict=True)
    ):
        color, marker = looks[depth]
        face = "white" if is_held_out else color
        ax.plot(x[index], y[index], marker, ms=size, mfc=face, mec=color, mew=1.0, ls="", zorder=3)


def _draw_errors(ax: Axes, frame: pd.DataFrame, looks: dict) -> None:
    batches = sorted(frame["batch_size"].unique())
    x = _dodged(frame, batches)
    measured = frame["measured_ms"].to_numpy(float)
    below, above = (100 * (frame[side].to_numpy(float) / measured - 1) for side in ("lower_ms", "upper_ms"))
    error = 100 * (frame["predicted_ms"].to_numpy(float) / measured - 1)
    ax.axhline(0, color=INK, lw=0.7, zorder=1)
    ax.bar(x, above - below, bottom=below, width=0.55 * _spacing(frame), color=FAINT, zorder=0)
    _draw_points(ax, frame, x, error, looks)
    for edge in np.arange(len(batches) - 1) + 0.5:
        ax.axvline(edge, color=FAINT, lw=0.6)
    _fit_bars(ax, x, below, above, error)
    ax.set_xticks(range(len(batches)), [str(batch) for batch in batches])
    ax.set_xlim(-0.5, len(batches) - 0.5)
    ax.set_xlabel("batch size (requests)")
    ax.set_ylabel("error of the prediction (% of measured)")
    ax.set_title(_error_summary(frame), loc="right", fontsize=6.5)


def _fit_bars(ax: Axes, x: np.ndarray, below: np.ndarray, above: np.ndarray, error: np.ndarray) -> None:
    """Scale the panel by the usual bars, and say how far others go: one slow trial must not flatten the rest."""
    usual = max(2 * np.quantile(above, 0.75), 1.3 * np.abs(error).max(), 1.0)
    low, high = min(below.min(), error.min()), min(above.max(), usual)
    margin = 0.05 * (high - low)
    ax.set_ylim(low - margin, high + 2.5 * margin)
    for place, end in zip(x, above, strict=True):
        if end > high + 2.5 * margin:
            ax.annotate(
                f"+{end:.0f} %",
                (place, high + margin),
                ha="center",
                va="center",
                fontsize=5.5,
                rotation=90 if len(x) > 20 else 0,
                color=INK,
            )


def _dodged(frame: pd.DataFrame, batches: list[int]) -> np.ndarray:
    """Return an x for each cell: its batch size, then by depth, then by context and rank within the depth."""
    ordered = frame.sort_values(["num_speculative_tokens", "num_context_tokens", "lora_rank"])
    place = ordered.groupby("batch_size").cumcount().reindex(frame.index).to_numpy(float)
    size = frame.groupby("batch_size")["batch_size"].transform("size").to_numpy(float)
    return frame["batch_size"].map(batches.index).to_numpy(float) + (place + 0.5 - size / 2) * _spacing(frame)


def _spacing(frame: pd.DataFrame) -> float:
    return 0.84 / frame["batch_size"].value_counts().max()


def _error_summary(frame: pd.DataFrame) -> str:
    error = 100 * (frame["predicted_ms"] / frame["measured_ms"] - 1).abs()
    parts = [(label, error[frame["is_held_out"] == flag]) for label, flag in (("held out", True), ("fitted", False))]
    return "; ".join(
        f"{label}: mean |error| {part.mean():.1f} %, largest {part.max():.1f} %" for label, part in parts if len(part)
    )


def _count(frame: pd.DataFrame) -> str:
    cells = count_phrase(len(frame), "cell")
    trials, steps = range_phrase(frame["num_trials"], "trial"), range_phrase(frame["num_steps"], "step")
    contexts, ranks = range_phrase(frame["num_context_tokens"], "context token"), frame["lora_rank"].unique()
    rank = ", ".join(str(value) for value in sorted(ranks))
    return f"n = {cells}, each {trials} and {steps}; {contexts}; LoRA rank {rank}; {_RULE}"
