"""The decision map of the fleet page, as SVG text: ground from the cost model alone, adapters above it.

Every text is escaped here. Colours are classes of the page's style sheet, so that they follow light and dark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from lora_spec.gate.decision_map import MapCell
from lora_spec.plots.actions import ACTION_STYLES
from lora_spec.printing import printable
from lora_spec.records import Action, Interval

_WIDTH, _LEFT, _RIGHT, _TOP = 890, 180, 20, 14
_LOAD_ROW, _NAMED_ROW, _STRIP = 30, 16, 170
_MOST_NAMED = 40
_NAME_CHARACTERS = 20
_GOLDEN = 0.6180339887  # places that fill a strip evenly, whatever their number


@dataclass(frozen=True)
class MapPoint:
    """One adapter on the map: its place in the table, and its acceptance length at the standing depth."""

    index: int
    name: str
    action: Action
    length: Interval


def fleet_map(cells: Sequence[MapCell], points: Sequence[MapPoint], *, standing: int, headline: float) -> str:
    """Return one ``<svg>``: x is the acceptance length at the standing depth, rows below are loads."""
    is_named = len(points) <= _MOST_NAMED
    strip = max(1, len(points)) * _NAMED_ROW if is_named else _STRIP
    loads = sorted({cell.batch_size for cell in cells})
    map_top = _TOP + strip + 12
    bottom = map_top + len(loads) * _LOAD_ROW
    scale = _Scale(standing)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {bottom + 46}" role="img" aria-labelledby="map-title map-desc">',
        '<title id="map-title">Decision map</title>',
        f'<desc id="map-desc">{escape(_description(points, loads, standing))}</desc>',
        *_points(points, scale, is_named=is_named, bottom=bottom if is_named else _TOP + strip),
        *(_load_row(cells, load, map_top + i * _LOAD_ROW, scale, headline) for i, load in enumerate(loads)),
        *_axis(scale, bottom, standing),
        "</svg>",
    ]
    return "\n".join(parts)


class _Scale:
    """From acceptance length to pixels."""

    def __init__(self, standing: int) -> None:
        self.most = standing + 1.0

    def __call__(self, length: float) -> float:
        share = (min(max(length, 1.0), self.most) - 1) / (self.most - 1)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)


def _description(points: Sequence[MapPoint], loads: Sequence[float], standing: int) -> str:
    counts = {action: sum(point.action == action for point in points) for action in ACTION_STYLES}
    told = ", ".join(f"{number} {action}" for action, number in counts.items() if number)
    return (
        f"Best depth by acceptance length at K={standing} and batch size ({', '.join(f'{load:g}' for load in loads)}), "
        f"and {len(points)} adapters ({told or 'none'}). The table below holds the same adapters."
    )


def _points(points: Sequence[MapPoint], scale: _Scale, *, is_named: bool, bottom: float) -> list[str]:
    parts = []
    for row, point in enumerate(sorted(points, key=lambda point: (-point.length.estimate, point.name))):
        x = scale(point.length.estimate)
        y = _TOP + (row * _NAMED_ROW + 6 if is_named else (row * _GOLDEN % 1) * _STRIP)
        parts.append(f'<g class="point {point.action}" data-i="{point.index}">')
        parts.append(f"<title>{escape(_told(point))}</title>")
        if is_named:
            parts.append(f'<line class="plumb" x1="{x}" y1="{y + 5}" x2="{x}" y2="{bottom}"/>')
            low, high = scale(point.length.lower), scale(point.length.upper)
            parts.append(f'<line class="interval" x1="{low}" y1="{y}" x2="{high}" y2="{y}"/>')
            name = escape(printable(point.name, _NAME_CHARACTERS))
            parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{name}</text>')
        parts += [_mark(point.action, x, round(y, 1)), "</g>"]
    return parts


def _told(point: MapPoint) -> str:
    length = point.length
    return (
        f"{printable(point.name)}: {point.action}, acceptance length {length.estimate:.2f} "
        f"({length.lower:.2f} to {length.upper:.2f})"
    )


def _mark(action: str, x: float, y: float) -> str:
    """Return the action's own shape: colour alone does not reach every reader."""
    if action == "green":
        return f'<circle class="mark" cx="{x}" cy="{y}" r="4.5"/>'
    shapes = {
        "amber": f"M{x} {y - 5}l5 9h-10z",
        "red": f"M{x - 4} {y - 4}h8v8h-8z",
        "abstain": f"M{x - 5} {y - 3}l2 -2 3 3 3 -3 2 2 -3 3 3 3 -2 2 -3 -3 -3 3 -2 -2 3 -3z",
    }
    return f'<path class="mark" d="{shapes[action]}"/>'


def _load_row(cells: Sequence[MapCell], load: float, y: float, scale: _Scale, headline: float) -> str:
    row = sorted((cell for cell in cells if cell.batch_size == load), key=lambda cell: cell.acceptance_length)
    is_headline = load == headline
    label = f"batch {load:g}" + (" (headline)" if is_headline else "")
    parts = [
        f'<text class="{"strong" if is_headline else ""}" x="{_LEFT - 8}" y="{y + 19}" text-anchor="end">{label}</text>'
    ]
    for start, end, cell in _runs(row):
        left, width = scale(start), round(scale(end) - scale(start), 1)
        words = f"K={cell.num_speculative_tokens}" if cell.num_speculative_tokens else "off"
        parts.append(
            f'<rect class="ground {cell.action}" x="{left}" y="{y}" width="{width}" height="{_LOAD_ROW - 2}"/>'
        )
        if width > 30:
            middle = round(left + width / 2, 1)
            parts.append(f'<text x="{middle}" y="{y + 19}" text-anchor="middle">{words}</text>')
    return "\n".join(parts)


def _runs(row: Sequence[MapCell]) -> list[tuple[float, float, MapCell]]:
    """Return the stretches of one load with one depth, their ends halfway between cells."""
    places = [cell.acceptance_length for cell in row]
    edges = [1.0, *((a + b) / 2 for a, b in pairwise(places)), places[-1]]
    runs: list[tuple[float, float, MapCell]] = []
    for index, cell in enumerate(row):
        is_same = bool(runs) and runs[-1][2].num_speculative_tokens == cell.num_speculative_tokens
        start = runs.pop()[0] if is_same else edges[index]
        runs.append((start, edges[index + 1], cell))
    return runs


def _axis(scale: _Scale, bottom: float, standing: int) -> list[str]:
    ticks = [1 + step / 2 for step in range(2 * standing + 1)]
    parts = [f'<text x="{scale(t)}" y="{bottom + 16}" text-anchor="middle">{t:g}</text>' for t in ticks]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    words = f"acceptance length at the standing depth K = {standing}, tokens per draft step"
    return [*parts, f'<text x="{middle}" y="{bottom + 36}" text-anchor="middle">{words}</text>']
