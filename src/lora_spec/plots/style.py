"""One look for all figures: print sizes, colours, markers, footer, watermark. Knows nothing of any figure."""

import functools
import textwrap
from collections.abc import Callable
from typing import Any

import matplotlib
import matplotlib.style
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lora_spec.plots.context import WATERMARK, FigureContext, context_of
from lora_spec.plots.frame_schema import FrameSchema

PAGE_WIDTH_IN = 6.9
INK = "#222222"
MUTED = "#8C8C8C"
FAINT = "#DDDDDD"
# Neither of the two is used for an action, so that no reader takes a group for a verdict.
BLUE = "#0072B2"
PURPLE = "#A6498A"

_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "axes.titlesize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.0,
    "pdf.fonttype": 42,
    # Laid out at the resolution it is saved at, and without hinting: text then takes the same room in PNG and PDF.
    "figure.dpi": 200,
    "savefig.dpi": 200,
    "text.hinting": "none",
    # Adapter names are data: a dollar sign in one must not start a formula.
    "text.parse_math": False,
}


def house_style() -> Any:
    """Return the context manager under which figures are drawn and saved, whatever the user's matplotlibrc says."""
    return matplotlib.style.context(["default", _RC])


def figure_of(schema: FrameSchema) -> Callable[[Callable[..., Figure]], Callable[[pd.DataFrame], Figure]]:
    """Return a decorator that checks the table, applies the style and freezes the layout of a drawing function.

    The wrapped function takes the checked table and its context; the result takes the table alone.
    """

    def decorate(draw: Callable[[pd.DataFrame, FigureContext], Figure]) -> Callable[[pd.DataFrame], Figure]:
        @functools.wraps(draw)
        def draw_checked(frame: pd.DataFrame) -> Figure:
            checked = schema.check(frame)
            context = context_of(checked)
            with house_style():
                fig = draw(checked, context)
                _add_watermark(fig, context)
                freeze_layout(fig)
            return fig

        return draw_checked

    return decorate


def new_figure(height_in: float, *, width_in: float = PAGE_WIDTH_IN) -> Figure:
    """Return an empty figure of print size on the Agg canvas, outside pyplot's global state."""
    fig = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(fig)
    return fig


def freeze_layout(fig: Figure) -> None:
    """Lay the figure out once and for all: a further pass could move things by a hair, and two saves would differ."""
    if fig.get_layout_engine() is None:
        return
    # Margins follow the tick labels, whose number can follow the margins: the second pass settles it.
    fig.draw_without_rendering()
    fig.draw_without_rendering()
    fig.set_layout_engine("none")


def add_footer(fig: Figure, context: FigureContext, num_observations: str) -> None:
    """Write tier, evidence, n and set-up below everything else."""
    text = fig.supxlabel(
        _wrapped(fig, context.footer(num_observations)), x=0.01, ha="left", fontsize=6.5, color="#555555"
    )
    text.set_gid("footer")
    text.set_linespacing(1.35)


def _wrapped(fig: Figure, text: str, *, characters_per_inch: int = 19) -> str:
    """Break lines that would run off the page; the footer's type sets about 21 characters to the inch."""
    width = int(characters_per_inch * fig.get_size_inches()[0])
    return "\n".join(part for line in text.splitlines() for part in textwrap.wrap(line, width))


def _add_watermark(fig: Figure, context: FigureContext) -> None:
    if not context.is_synthetic:
        return
    width, height = fig.get_size_inches()
    fig.text(
        0.5,
        0.5,
        WATERMARK,
        gid="watermark",
        ha="center",
        va="center",
        rotation=min(35.0, 25.0 * height / width),
        fontsize=2.75 * width,
        fontweight="bold",
        color="#CC0000",
        alpha=0.3,
        zorder=100,
    )


def legend_above(fig: Figure, handles: list[Any], *, num_columns: int, conclusion: str | None = None) -> None:
    """Put one legend above all axes, where it covers no data, under what the figure shows, if that is one sentence."""
    fig.legend(
        handles=handles,
        loc="outside upper left",
        ncols=num_columns,
        columnspacing=1.4,
        handletextpad=0.5,
        title=None if conclusion is None else _wrapped(fig, conclusion, characters_per_inch=13),
        title_fontproperties={"weight": "bold", "size": 8},
        alignment="left",
    )


def marker_handle(marker: str, color: str, label: str, *, is_hollow: bool = False, size: float = 5.0) -> Line2D:
    """Return a legend entry that shows one marker."""
    face = "white" if is_hollow else color
    return Line2D([], [], marker=marker, ls="", mfc=face, mec=color, mew=1.0, ms=size, label=label)


def count_phrase(count: int, noun: str) -> str:
    """Return a count with its noun, for example ``1 adapter`` or ``1,200 drafts``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def range_phrase(values: pd.Series, noun: str) -> str:
    """Return a count or the range of counts with its noun, for example ``16 prompts`` or ``16-32 prompts``."""
    low, high = int(values.min()), int(values.max())
    return count_phrase(low, noun) if low == high else f"{low:,}-{high:,} {noun}s"
