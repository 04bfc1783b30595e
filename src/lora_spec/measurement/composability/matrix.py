"""The full matrix with what was measured laid over it: every cell says what is known of it, and how."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lora_spec.measurement.composability.cells import AXES, Cell
from lora_spec.measurement.composability.covering import combinations

PAIR_STRENGTH = 2


def lay_over(cells: Sequence[Cell], observed: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per cell of the matrix.

    ``status`` is that of the measurement, or ``unmeasured``, or the pruning rule's ``meaningless`` or ``conceptual``;
    ``evidence`` is ``measured`` or ``contract-only``; ``unjudged`` names the checks of a measured cell that could say
    nothing. ``num_pairs_working`` of ``num_pairs`` pairs of its axis values were seen in cells that work, settings
    that the engine replaced not counted, nor cells with a check that could say nothing.
    """
    working = pairs_working(cells, observed)
    return [_row(cell, observed.get(cell.cell_id), working) for cell in cells]


def pairs_working(cells: Iterable[Cell], observed: Mapping[str, Mapping[str, Any]]) -> frozenset[Any]:
    """Return the pairs of axis values that some working cell had in force."""
    pairs: set[Any] = set()
    for cell in cells:
        seen = observed.get(cell.cell_id)
        if seen is not None and seen["status"] == "works" and not _unjudged(seen):
            replaced = seen.get("replaced") or {}
            held = combinations(cell, PAIR_STRENGTH)
            pairs |= {pair for pair in held if not any(axis in replaced for axis, _ in pair)}
    return frozenset(pairs)


def _row(cell: Cell, seen: Mapping[str, Any] | None, working: frozenset[Any]) -> dict[str, Any]:
    pairs = combinations(cell, PAIR_STRENGTH)
    return {
        "cell_id": cell.cell_id,
        "axes": cell.axes,
        **(_measured(seen) if seen is not None else _unmeasured(cell)),
        "num_pairs": len(pairs),
        "num_pairs_working": len(pairs & working),
    }


def _measured(seen: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "status": seen["status"],
        "evidence": "measured",
        "reason": seen["reason"],
        "replaced": dict(seen.get("replaced") or {}),
        "unjudged": _unjudged(seen),
        "timestamp": seen["timestamp"],
    }


def _unjudged(seen: Mapping[str, Any]) -> list[str]:
    return [check["name"] for check in seen.get("checks") or () if check["outcome"] == "unknown"]


def _unmeasured(cell: Cell) -> dict[str, Any]:
    rule = cell.rule
    return {
        "status": "unmeasured" if rule is None or rule.status == "probe" else rule.status,
        "evidence": "contract-only",
        "reason": rule.reason if rule else "not selected, or not run yet",
        "replaced": {},
        "unjudged": [],
        "timestamp": None,
    }


def matrix_csv(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the rows as CSV: one column per axis, replaced settings as ``axis=value``, unjudged checks by name."""
    flat = [
        {
            "cell_id": row["cell_id"],
            **{axis: word(row["axes"][axis]) for axis in AXES},
            **{key: row[key] for key in ("status", "evidence", "num_pairs_working", "num_pairs")},
            "replaced": " ".join(f"{axis}={word(value)}" for axis, value in row["replaced"].items()),
            "unjudged": " ".join(row["unjudged"]),
            "reason": row["reason"],
        }
        for row in rows
    ]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue().encode()


def word(value: Any) -> str:
    """Return an axis value as people write it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
