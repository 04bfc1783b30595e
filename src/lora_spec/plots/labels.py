"""Names on figures: shortened to fit, free of control characters, placed so that no two overlap."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

_OFFSETS_PT = tuple(
    (radius * x, radius * y)
    for radius in (6.0, 11.0, 17.0, 25.0, 34.0)
    for x, y in ((1, 0.4), (-1, 0.4), (1, -0.4), (-1, -0.4), (0.3, 1), (-0.3, 1), (0.3, -1), (-0.3, -1))
)


def shorten(name: str, max_chars: int = 28) -> str:
    """Return a printable name of at most ``max_chars`` characters, cut in the middle since ends tell names apart."""
    printable = "".join(char if char.isprintable() else "?" for char in name)
    if len(printable) <= max_chars:
        return printable
    head = (max_chars - 1) // 2
    return f"{printable[:head]}…{printable[head + 1 - max_chars :]}"


def place_labels(
    ax: Axes, points: np.ndarray, texts: Sequence[str], *, marks: np.ndarray, lines: np.ndarray
) -> tuple[str, ...]:
    """Label points without covering other labels, marks or the frame; return the texts that found no place.

    Parameters
    ----------
    points
        Shape (num_labels, 2), data coordinates; earlier ones get the better places.
    marks
        Shape (num_marks, 2), data coordinates that no label may cover.
    lines
        Shape (num_points, 2), points along lines that a label avoids where it can.

    Notes
    -----
    The layout must be final. Greedy: the nearest of forty offsets that is free of all, else free of the marks.
    """
    fig = ax.get_figure(root=True)
    renderer = fig.canvas.get_renderer()
    frame = ax.get_window_extent(renderer)
    hard, soft = ax.transData.transform(marks), ax.transData.transform(lines)
    taken: list[Bbox] = []
    left_out = []
    for point, text in zip(points, texts, strict=True):
        label = _annotate(ax, point, text)
        size = Text.get_window_extent(label, renderer)
        anchor = ax.transData.transform(point)
        boxes = [(offset, _box_at(anchor, offset, size, fig.dpi / 72)) for offset in _OFFSETS_PT]
        free = [(offset, box) for offset, box in boxes if _is_free(box, frame, hard, taken)]
        if not free:
            label.remove()
            left_out.append(text)
            continue
        offset, box = next((pair for pair in free if not _covers(pair[1], soft)), free[0])
        label.set_position(offset)
        label.set_ha(_alignment(offset))
        taken.append(box)
    return tuple(left_out)


def _annotate(ax: Axes, point: np.ndarray, text: str) -> Annotation:
    arrow = {"arrowstyle": "-", "lw": 0.4, "color": "#8C8C8C", "shrinkA": 0, "shrinkB": 2}
    ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
    return ax.annotate(
        text,
        point,
        xytext=_OFFSETS_PT[0],
        textcoords="offset points",
        fontsize=6,
        va="center",
        arrowprops=arrow,
        bbox=ground,
        zorder=5,
    )


def _alignment(offset: tuple[float, float]) -> str:
    return "left" if offset[0] > 0 else "right"


def _box_at(anchor: np.ndarray, offset: tuple[float, float], size: Bbox, pixels_per_pt: float) -> Bbox:
    """Return the room that words of one size take at an offset, with a margin, in pixels."""
    x, y = anchor + pixels_per_pt * np.array(offset)
    left = x if _alignment(offset) == "left" else x - size.width
    return Bbox.from_bounds(left, y - size.height / 2, size.width, size.height).padded(2.0)


def _covers(box: Bbox, points: np.ndarray) -> bool:
    x, y = points.T
    return bool(((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)).any())


def _is_free(box: Bbox, frame: Bbox, marks: np.ndarray, taken: Sequence[Bbox]) -> bool:
    is_inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
    return is_inside and not _covers(box, marks) and not any(box.overlaps(other) for other in taken)
