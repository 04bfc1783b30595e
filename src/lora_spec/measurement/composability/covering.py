"""Which cells are run: baselines, their neighbours, and a covering array over what else can be run.

A covering array of strength t holds every combination of t axis values that occurs in any runnable cell at least once.
Faults of interacting features mostly need two of them (Kuhn, Wallace, Gallo 2004), so strength 2 finds most at the
price of a few dozen cells out of thousands.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lora_spec.config.phase0_matrix import SelectionConfig
from lora_spec.measurement.composability.cells import AXES, AxisValue, Cell

Combination = tuple[tuple[str, AxisValue], ...]


@dataclass(frozen=True)
class SelectedCell:
    """A cell to run and why: ``baseline``, ``neighbour`` or ``coverage``."""

    cell: Cell
    why: str


def combinations(cell: Cell, strength: int) -> frozenset[Combination]:
    """Return the combinations of ``strength`` axis values that a cell holds."""
    return frozenset(itertools.combinations(zip(AXES, cell.values, strict=True), strength))


def covered_by(cells: Iterable[Cell], strength: int) -> frozenset[Combination]:
    """Return the combinations that occur in any of the cells."""
    return frozenset().union(*(combinations(cell, strength) for cell in cells))


def select_cells(cells: Sequence[Cell], rule: SelectionConfig) -> tuple[SelectedCell, ...]:
    """Return the cells to run, in the order of their reasons; the same input gives the same cells."""
    baselines = _baselines(cells, rule)
    selected = [SelectedCell(cell, "baseline") for cell in baselines]
    if rule.has_neighbours:
        selected += [SelectedCell(cell, "neighbour") for cell in _neighbours(cells, baselines)]
    done = [entry.cell for entry in selected if entry.cell.is_runnable]
    selected += [SelectedCell(cell, "coverage") for cell in cover(cells, done, baselines[0], rule.coverage_strength)]
    return tuple(selected)


def _baselines(cells: Sequence[Cell], rule: SelectionConfig) -> list[Cell]:
    by_values = {cell.values: cell for cell in cells}
    return [by_values[tuple(baseline[axis] for axis in AXES)] for baseline in rule.baselines]


def _neighbours(cells: Sequence[Cell], baselines: Sequence[Cell]) -> list[Cell]:
    """Return cells that differ from a baseline on one axis, probes included."""
    return [
        cell
        for cell in cells
        if (cell.is_runnable or cell.is_probe)
        and cell not in baselines
        and any(len(cell.changed_axes(baseline)) == 1 for baseline in baselines)
    ]


def cover(cells: Sequence[Cell], done: Sequence[Cell], baseline: Cell, strength: int) -> list[Cell]:
    """Return runnable cells that, with those done, cover every combination that a runnable cell holds.

    Greedy: the cell with most uncovered combinations next; ties go to the one nearest to the baseline, then to the
    first of the matrix.
    """
    runnable = [cell for cell in cells if cell.is_runnable]
    held = {cell: combinations(cell, strength) for cell in runnable}
    missing = set().union(*held.values()) - covered_by(done, strength)
    chosen = []
    while missing:
        best = max(runnable, key=lambda cell: (len(held[cell] & missing), -len(cell.changed_axes(baseline))))
        chosen.append(best)
        missing -= held[best]
    return chosen
