"""The cells of the matrix: every combination of axis values, named, and pruned by the written rules."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lora_spec.config.phase0_matrix import AxesConfig, PruningRule
from lora_spec.errors import MeasurementError

AXES = tuple(AxesConfig.model_fields)
"""Axis names, in the order of a cell's name."""

AxisValue = str | bool
# Values that would not say on their own what they are values of.
_SWITCHES = {
    "prefix_caching": ("prefix-off", "prefix-on"),
    "chunked_prefill": ("chunked-off", "chunked-on"),
    "structured_output": ("free", "grammar"),
}


@dataclass(frozen=True)
class Cell:
    """One combination of features; ``rule`` is the first pruning rule that applies to it, if any."""

    values: tuple[AxisValue, ...]
    rule: PruningRule | None = None

    @property
    def cell_id(self) -> str:
        """Return the name, such as ``draft_model+lora-one+prefix-on+chunked-on+eager+sync+greedy+free``."""
        return cell_id_of(self.axes)

    @property
    def axes(self) -> dict[str, AxisValue]:
        """Return axis name to value."""
        return dict(zip(AXES, self.values, strict=True))

    @property
    def is_runnable(self) -> bool:
        """Return whether no rule prunes it."""
        return self.rule is None

    @property
    def is_probe(self) -> bool:
        """Return whether it is run only next to a baseline."""
        return self.rule is not None and self.rule.status == "probe"

    def changed_axes(self, other: "Cell") -> tuple[str, ...]:
        """Return the axes on which two cells differ."""
        return tuple(axis for axis, a, b in zip(AXES, self.values, other.values, strict=True) if a != b)


def cell_id_of(axes: Mapping[str, AxisValue]) -> str:
    """Return the name of the cell with these axis values."""
    return "+".join(_token(axis, axes[axis]) for axis in AXES)


def _token(axis: str, value: AxisValue) -> str:
    if axis in _SWITCHES:
        return _SWITCHES[axis][bool(value)]
    if axis == "method":
        return str(value)
    word = str(value).replace("_", "-")
    return f"lora-{word}" if axis == "lora" else word


def enumerate_cells(axes: AxesConfig, pruning: tuple[PruningRule, ...]) -> tuple[Cell, ...]:
    """Return the full matrix in the order of its axes, each cell with the first rule that applies to it."""
    product = itertools.product(*(getattr(axes, axis) for axis in AXES))
    return tuple(Cell(values, _first_rule(dict(zip(AXES, values, strict=True)), pruning)) for values in product)


def _first_rule(values: Mapping[str, Any], pruning: tuple[PruningRule, ...]) -> PruningRule | None:
    applies = (rule for rule in pruning if all(values[axis] in rule.values(axis) for axis in rule.when))
    return next(applies, None)


def find_cells(cells: tuple[Cell, ...], names: tuple[str, ...]) -> tuple[Cell, ...]:
    """Return the named cells.

    Raises
    ------
    MeasurementError
        A name is not in the matrix or stands twice, or its cell cannot be run.
    """
    by_id = {cell.cell_id: cell for cell in cells}
    for place, name in enumerate(names):
        if name in names[:place]:
            raise MeasurementError(f"cell {name} is named twice; name each once")
        if name not in by_id:
            raise MeasurementError(f"no cell {name!r} in the matrix; the plan lists the names")
        rule = by_id[name].rule
        if rule is not None and rule.status != "probe":
            raise MeasurementError(f"cell {name} is {rule.status} and cannot be run: {rule.reason}")
    return tuple(by_id[name] for name in names)
