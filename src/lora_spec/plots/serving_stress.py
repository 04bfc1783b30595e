"""Figure 10: policies under traffic, by pattern and cache mode: gain over the best static depth and regret."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from lora_spec.plots.context import FigureContext
from lora_spec.plots.labels import shorten
from lora_spec.plots.policy_schemas import SERVING_STRESS
from lora_spec.plots.policy_words import policy_words
from lora_spec.plots.style import (
    BLUE,
    FAINT,
    INK,
    PURPLE,
    add_footer,
    figure_of,
    legend_above,
    marker_handle,
    new_figure,
    range_phrase,
)

_MARKERS = ("o", "s", "^", "D", "v", "P")
_SHADES = (0.35, 1.0)
_SPREAD = 0.5  # of a row, over which its loads are laid out
_TOLD = {"gain": "gain over best static K (%)", "regret": "regret to the oracle (%)"}
_COLORS = {"gain": BLUE, "regret": PURPLE}
# Saturated policies are many times slower; one of them must not squeeze all others into a line.
_FRAMES = {"gain": (-0.3, 0.3), "regret": (-0.05, 0.6)}


@figure_of(SERVING_STRESS)
def draw_serving_stress(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return a panel per measure, cache mode and pattern, one row per policy.

    A whole grid has a row of panels per cache mode; a live run is some places of it, side by side.
    """
    policies, rates = list(frame["policy"].unique()), sorted(frame["request_rate_req_s"].unique())
    measures = [measure for measure in _TOLD if frame[measure].notna().any()]
    rows = [(measure, places) for measure in measures for places in _rows_of_places(frame)]
    fig = new_figure(1.3 + len(rows) * (0.5 + 0.16 * len(policies)))
    axes = fig.subplots(len(rows), len(rows[0][1]), sharey=True, squeeze=False)
    for row, (measure, places) in enumerate(rows):
        for ax, (pattern, mode) in zip(axes[row], places, strict=True):
            part = frame[(frame["pattern"] == pattern) & (frame["cache_mode"] == mode)]
            _draw_panel(ax, part, measure, policies, rates, limits=_limits(frame, measure))
            ax.set_title(f"{shorten(pattern, 18)}, cache {mode}", loc="left")
            if (row + 1) % (len(rows) // len(measures)) == 0:
                ax.set_xlabel(_TOLD[measure])
    for ax in axes[:, 0]:
        ax.set_yticks(range(len(policies)), [shorten(policy_words(policy), 28) for policy in policies])
    axes[0][0].set_ylim(len(policies) - 0.4, -0.6)
    legend_above(fig, _handles(rates, frame), num_columns=len(rates) + 1)
    add_footer(fig, context, _count(frame))
    return fig


def _rows_of_places(frame: pd.DataFrame) -> list[list[tuple[str, str]]]:
    """Return rows of (pattern, cache mode): one per mode where all are there, else one of those that are."""
    patterns, modes = frame["pattern"].unique(), frame["cache_mode"].unique()
    found = list(dict.fromkeys(zip(frame["pattern"], frame["cache_mode"], strict=True)))
    if len(found) < len(patterns) * len(modes):
        return [found]
    return [[(pattern, mode) for pattern in patterns] for mode in modes]


def _limits(frame: pd.DataFrame, measure: str) -> tuple[float, float]:
    """Return limits that hold all values but those far out, and zero."""
    low, high = _FRAMES[measure]
    values = np.concatenate([frame[name].dropna() for name in (measure, f"{measure}_lower", f"{measure}_upper")])
    inner = np.clip(values, low, high)
    left, right = min(float(inner.min()), 0.0), max(float(inner.max()), 0.0)
    margin = 0.06 * max(right - left, 0.01)
    return left - margin, right + margin


def _draw_panel(
    ax: Axes,
    part: pd.DataFrame,
    measure: str,
    policies: Sequence[str],
    rates: Sequence[float],
    *,
    limits: tuple[float, float],
) -> None:
    ax.axvline(0, color=INK, lw=0.7, zorder=1)
    for y in range(1, len(policies)):
        ax.axhline(y - 0.5, color=FAINT, lw=0.4, zorder=0)
    for item in part.dropna(subset=[measure]).to_dict("records"):
        place = rates.index(item["request_rate_req_s"])
        y = policies.index(item["policy"]) + _offset(place, len(rates))
        style = {"color": _COLORS[measure], "alpha": _shade(place, len(rates)), "zorder": 3}
        value, low, high = (float(item[name]) for name in (measure, f"{measure}_lower", f"{measure}_upper"))
        if not np.isnan(low):
            ax.hlines(y, max(low, limits[0]), min(high, limits[1]), lw=0.9, **style)
        is_inside = limits[0] <= value <= limits[1]
        marker = _MARKERS[place % len(_MARKERS)] if is_inside else ("<" if value < limits[0] else ">")
        shown = min(max(value, limits[0]), limits[1])
        ax.plot(shown, y, marker, ms=3 if is_inside else 5, clip_on=is_inside, **style)
        if item["num_failed"]:
            ax.plot(shown, y, "x", ms=5, color=INK, mew=0.7, zorder=4, clip_on=is_inside)
    ax.set_xlim(limits)
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=None))


def _offset(place: int, num_rates: int) -> float:
    return 0.0 if num_rates == 1 else _SPREAD * (place / (num_rates - 1) - 0.5)


def _shade(place: int, num_rates: int) -> float:
    low, high = _SHADES
    return high if num_rates == 1 else low + (high - low) * place / (num_rates - 1)


def _handles(rates: Sequence[float], frame: pd.DataFrame) -> list:
    handles = [
        marker_handle(_MARKERS[place % len(_MARKERS)], INK, f"{rate:g} requests per s", size=4)
        for place, rate in enumerate(rates)
    ]
    if frame["num_failed"].any():
        handles.append(marker_handle("x", INK, "some requests did not end"))
    return handles


def _count(frame: pd.DataFrame) -> str:
    trials, requests = range_phrase(frame["num_trials"], "trial"), range_phrase(frame["num_requests"], "request")
    return f"{frame['source'].iloc[0]} runs; n = {trials} per point, {requests} of them together"
