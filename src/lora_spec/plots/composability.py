"""Figure 1: which engine features work together, by speculation method and adapters."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke

from lora_spec.plots.context import FigureContext
from lora_spec.plots.schemas import COMPOSABILITY
from lora_spec.plots.statuses import STATUS_STYLES
from lora_spec.plots.style import FAINT, INK, MUTED, add_footer, count_phrase, figure_of, legend_above, new_figure

_GAP = 0.35  # empty room between features, and between methods
_HATCH = {"conceptual": "////", "meaningless": "xxxx"}
_UNMEASURED_LABELS = {
    "unmeasured": "blank: could be run, not measured",
    "conceptual": "cannot be run with these models",
    "meaningless": "no such combination",
}
_METHOD_LABELS = {"none": "no\nspeculation"}
_AXIS_LABELS = {
    "prefix_caching": "prefix\ncaching",
    "chunked_prefill": "chunked\nprefill",
    "execution": "execution",
    "scheduling": "scheduling",
    "sampler": "sampling",
    "structured_output": "grammar",
}
_VALUE_LABELS = {
    "temperature_greedy_drafts": "temp.,\nargmax\ndrafts",
    "temperature_probabilistic_drafts": "temp.,\nsampled\ndrafts",
}
_LORA_LABELS = {
    "off": "no LoRA",
    "one": "one adapter",
    "several": "several",
    "beside_base": "several and base",
    "more_than_slots": "more than slots",
    "any": "any",
}


@figure_of(COMPOSABILITY)
def draw_composability(frame: pd.DataFrame, context: FigureContext) -> Figure:
    """Return one row per method and adapters, one column per feature value, each place split by status."""
    rows, columns = _places(frame, ["method", "lora"]), _places(frame, ["axis", "value"])
    fig = new_figure(1.75 + 0.19 * (max(rows.values()) + 1))
    ax = fig.subplots()
    for place in frame.itertuples():
        _draw_place(ax, columns[place.axis, place.value], rows[place.method, place.lora], place)
    _label_rows(ax, rows)
    _label_columns(ax, columns)
    ax.set_xlim(-0.5, max(columns.values()) + 0.5)
    ax.set_ylim(max(rows.values()) + 0.5, -0.5)
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    ax.set_xlabel(
        "feature value (a box holds all cells measured with it, split by status; X 2/7: 2 of these 7 are wrong)"
    )
    legend_above(fig, _handles(frame), num_columns=3)
    first_axis = frame[frame["axis"] == frame["axis"].iloc[0]]
    add_footer(fig, context, _count(int(first_axis["num_measured"].sum())))
    return fig


def _places(frame: pd.DataFrame, keys: list[str]) -> dict[tuple[str, str], float]:
    """Return the coordinate of each pair, in the order of the table, with a gap where the first key changes."""
    places: dict[tuple[str, str], float] = {}
    at, before = 0.0, None
    for group, member in frame[keys].drop_duplicates().sort_values(keys[0], key=_first_seen, kind="stable").values:
        at += _GAP if before not in (None, group) else 0.0
        places[group, member] = at
        at, before = at + 1, group
    return places


def _first_seen(series: pd.Series) -> pd.Series:
    order = {value: place for place, value in enumerate(dict.fromkeys(series))}
    return series.map(order)


def _count(num_measured: int) -> str:
    return f"n = {count_phrase(num_measured, 'measured cell')}, each shown once under every feature"


def _draw_place(ax: Axes, x: float, y: float, place: Any) -> None:
    box = {"xy": (x - 0.48, y - 0.46), "width": 0.96, "height": 0.92, "lw": 0.4, "edgecolor": FAINT}
    style = STATUS_STYLES.get(place.status)
    if style is None:
        ax.add_patch(Rectangle(**box, facecolor="white", hatch=_HATCH.get(place.status)))
        return
    counts = {status: getattr(place, f"num_{status}") for status in STATUS_STYLES}
    left = x - 0.48
    for status, count in counts.items():
        width = 0.96 * count / place.num_measured
        ax.add_patch(Rectangle((left, y - 0.46), width, 0.92, lw=0, facecolor=STATUS_STYLES[status].color))
        left += width
    ax.add_patch(Rectangle(**box, facecolor="none"))
    is_mixed = counts[place.status] < place.num_measured
    ax.text(
        x,
        y,
        f"{style.letter} {counts[place.status]}/{place.num_measured}",
        ha="center",
        va="center_baseline",
        fontsize=6,
        color="black" if is_mixed else style.ink,
        path_effects=[withStroke(linewidth=1.6, foreground="white")] if is_mixed else None,
    )


def _label_rows(ax: Axes, rows: dict[tuple[str, str], float]) -> None:
    ax.set_yticks(list(rows.values()), [_LORA_LABELS.get(lora, lora) for _, lora in rows], fontsize=6.5)
    for method in dict.fromkeys(method for method, _ in rows):
        ys = [y for (name, _), y in rows.items() if name == method]
        ax.annotate(
            _METHOD_LABELS.get(method, method),
            (0, (ys[0] + ys[-1]) / 2),
            xycoords=ax.get_yaxis_transform(),
            xytext=(-112, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            fontsize=7,
            fontweight="bold",
            color=INK,
        )


def _label_columns(ax: Axes, columns: dict[tuple[str, str], float]) -> None:
    ax.xaxis.set_ticks_position("top")
    ax.set_xticks(list(columns.values()), [_VALUE_LABELS.get(value, value) for _, value in columns], fontsize=6)
    for axis in dict.fromkeys(axis for axis, _ in columns):
        xs = [x for (name, _), x in columns.items() if name == axis]
        ax.annotate(
            _AXIS_LABELS.get(axis, axis),
            ((xs[0] + xs[-1]) / 2, 1),
            xycoords=ax.get_xaxis_transform(),
            xytext=(0, 30),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7,
            fontweight="bold",
            color=INK,
        )


def _handles(frame: pd.DataFrame) -> list[Patch]:
    present = set(frame["status"])
    handles = [
        Patch(facecolor=style.color, edgecolor=MUTED, lw=0.4, label=style.label)
        for status, style in STATUS_STYLES.items()
        if status in present
    ]
    return handles + [
        Patch(facecolor="white", edgecolor=MUTED, lw=0.4, hatch=_HATCH.get(status), label=label)
        for status, label in _UNMEASURED_LABELS.items()
        if status in present
    ]
