"""Figure 8: the share of wrong verdicts against the share committed, with what so few adapters can certify."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from lora_spec.evaluation.selective import least_certifiable
from lora_spec.plots.context import FigureContext
from lora_spec.plots.schemas import RISK_COVERAGE
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

_MARKERS = {1: "o", 2: "s"}


@figure_of(RISK_COVERAGE)
def draw_risk_coverage(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return, for every mode, the curve with its bound, the two certificates, and the limits that stood before."""
    fig = new_figure(3.6)
    modes = list(dict.fromkeys(frame["mode"]))
    (axes,) = fig.subplots(1, len(modes), sharey=True, squeeze=False)
    for ax, mode in zip(axes, modes, strict=True):
        _draw_mode(ax, frame[frame["mode"] == mode])
        ax.set_xlabel("coverage (share of the predictions committed)")
        if len(modes) > 1:
            ax.set_title(mode, fontsize="medium")
    axes[0].set_ylabel("risk (share of these that is wrong)")
    conclusion = "; ".join(_conclusion(frame[frame["mode"] == mode]) for mode in modes)
    legend_above(fig, _handles(frame), num_columns=2, conclusion=conclusion)
    add_footer(fig, context, _count(frame))
    return fig


def _draw_mode(ax: Axes, frame: pd.DataFrame) -> None:
    _draw_curve(ax, frame[frame["kind"] == "curve"].sort_values("num_committed"))
    _draw_least(ax, frame)
    _draw_certificates(ax, frame[frame["kind"] == "certified"])
    ax.axhline(frame["max_risk"].iloc[0], color=INK, lw=0.7, ls=(0, (4, 2)), zorder=1)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1))


def _draw_curve(ax: Axes, curve: pd.DataFrame) -> None:
    if curve.empty:
        words = "no prediction has a basis: out of distribution, or an interval of all that is possible"
        ax.text(0.98, 0.85, words, ha="right")
        return
    coverage = curve["coverage"].to_numpy(float)
    ax.fill_between(coverage, curve["risk"], curve["upper"], step="mid", color=FAINT, lw=0, zorder=0)
    ax.plot(coverage, curve["risk"], color=BLUE, marker=".", ms=3, zorder=2)


def _draw_least(ax: Axes, frame: pd.DataFrame) -> None:
    num_judged, confidence = int(frame["num_judged"].max()), frame["confidence"].iloc[0]
    counts = np.arange(1, num_judged + 1)
    ax.plot(counts / num_judged, [least_certifiable(int(n), confidence) for n in counts], color=MUTED, lw=0.8, ls=":")


def _draw_certificates(ax: Axes, certified: pd.DataFrame) -> None:
    for row in certified.dropna(subset=["risk"]).itertuples():
        ax.vlines(row.coverage, row.risk, row.upper, color=PURPLE, lw=1.2, zorder=3)
        ax.plot(row.coverage, row.risk, _MARKERS[int(row.direction)], color=PURPLE, ms=5, zorder=4)


def _handles(frame: pd.DataFrame) -> list:
    confidence = frame["confidence"].iloc[0]
    return [
        Line2D([], [], color=BLUE, marker=".", label="all judged adapters, by the limit of the doubt"),
        Patch(fc=FAINT, label=f"up to its {confidence:.0%} upper bound, adapters independent"),
        *(
            marker_handle(marker, PURPLE, f"half {number}, by the other half's limit; bar: to the bound")
            for number, marker in _MARKERS.items()
        ),
        Line2D([], [], color=MUTED, lw=0.8, ls=":", label="the bound if nothing were wrong"),
        Line2D(
            [],
            [],
            color=INK,
            lw=0.7,
            ls=(0, (4, 2)),
            label=f"risk at which a limit is chosen, {frame['max_risk'].iloc[0]:.0%}",
        ),
    ]


def _conclusion(frame: pd.DataFrame) -> str:
    row = frame[frame["kind"] == "together"].iloc[0]
    if not row["num_committed"]:
        return f"{row['mode']}: of {row['num_judged']} predicted verdicts none is committed"
    return (
        f"{row['mode']}: of {row['num_judged']} predicted verdicts {row['num_committed']} are committed, "
        f"{row['num_wrong']} of them wrong"
    )


def _count(frame: pd.DataFrame) -> str:
    row = frame[frame["kind"] == "together"].iloc[0]
    adapters = count_phrase(row["num_judged"], "adapter")
    sources = count_phrase(row["num_judged_sources"], "source")
    return (
        f"n = {adapters} from {sources}, each predicted with its source left out; wrong: loses more than "
        f"{row['max_loss']:.0%} of goodput at batch size {row['load_batch_size']:g}"
    )
