"""Typed column sets: what a predictor of one mode may see, and nothing else.

A leak between modes is a type error here, not a matter of discipline: a matrix is built from rows of exactly
one class, and a class takes its values from its own groups only.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import PredictorError
from lora_spec.records import Mode

_FOREIGN_PREFIXES = ("base_", "meta_", "calib_")


@dataclass(frozen=True)
class ColumnSet:
    """Finite numbers by column name, allowed in one mode.

    Raises
    ------
    PredictorError
        A value is missing, no number, or not finite.
    """

    values: Mapping[str, float]

    mode: ClassVar[Mode]
    groups: ClassVar[tuple[str, ...]]
    prefixes: ClassVar[tuple[str, ...]] = ()
    left_out: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        bad = sorted(name for name, value in self.values.items() if not _is_finite_number(value))
        if bad:
            raise PredictorError(
                f"{self.mode}: column {bad[0]!r} holds {self.values[bad[0]]!r} ({len(bad)} such columns); "
                "a missing or non-finite feature cannot be predicted from: inspect the adapter"
            )
        foreign = [*(p for p in _FOREIGN_PREFIXES if p not in self.prefixes), *self.left_out]
        smuggled = sorted(name for name in self.values if name.startswith(tuple(foreign)))
        if smuggled:
            raise PredictorError(
                f"{self.mode}: column {smuggled[0]!r} belongs to another mode and must not be seen here; "
                "extract the features again"
            )

    @classmethod
    def from_groups(cls, columns: Mapping[str, Mapping[str, Any]]) -> "ColumnSet":
        """Take this mode's groups out of a features table and leave all others unread.

        Parameters
        ----------
        columns
            Values by column name, by group, as in the payload of a ``features`` result.
        """
        values: dict[str, Any] = {}
        for group in cls.groups:
            if group not in columns:
                raise PredictorError(f"{cls.mode}: the features hold no group {group!r}; extract the features again")
            twice = sorted(set(values) & set(columns[group]))
            if twice:
                raise PredictorError(
                    f"{cls.mode}: column {twice[0]!r} stands in two groups; extract the features again"
                )
            values.update({k: v for k, v in columns[group].items() if not k.startswith(cls.left_out)})
        return cls(values)

    @classmethod
    def less_than(cls, columns: "ColumnSet") -> "ColumnSet":
        """Return columns of the same mode without those that this set leaves out.

        Raises
        ------
        PredictorError
            They are of another mode.
        """
        if columns.mode != cls.mode:
            raise PredictorError(
                f"{cls.__name__} are of mode {cls.mode}, not {columns.mode}; give columns of that mode"
            )
        return cls({name: value for name, value in columns.values.items() if not name.startswith(cls.left_out)})


class CheckpointOnlyColumns(ColumnSet):
    """Numbers of the adapter's tensors and module pattern."""

    mode = "checkpoint_only"
    groups = ("checkpoint_only",)


class CheckpointBaseColumns(ColumnSet):
    """The same, and numbers relative to constants of the base model."""

    mode = "checkpoint_base"
    groups = ("checkpoint_only", "checkpoint_base")
    prefixes = ("base_",)


class BaseMomentsOnlyColumns(CheckpointBaseColumns):
    """checkpoint_base without first-order margins: the step between tensors alone and all that the base gives."""

    left_out = ("base_margin_",)


BASE_ABLATION: dict[str, type[ColumnSet]] = {
    "tensors": CheckpointOnlyColumns,
    "moments": BaseMomentsOnlyColumns,
    "margins": CheckpointBaseColumns,
}
"""What each step adds is what it is worth: tensors alone, with second moments, with first-order margins."""


class CheckpointMetaColumns(ColumnSet):
    """The same as checkpoint_only, and numbers of the adapter's metadata."""

    mode = "checkpoint_meta"
    groups = ("checkpoint_only", "checkpoint_meta")
    prefixes = ("meta_",)


class CheckpointCalibColumns(ColumnSet):
    """The same as checkpoint_meta, and numbers of a few calibration prompts."""

    mode = "checkpoint_calib"
    groups = ("checkpoint_only", "checkpoint_meta", "checkpoint_calib")
    prefixes = ("meta_", "calib_")


COLUMN_SETS: dict[str, type[ColumnSet]] = {
    cls.mode: cls
    for cls in (CheckpointOnlyColumns, CheckpointBaseColumns, CheckpointMetaColumns, CheckpointCalibColumns)
}


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def column_set_of(mode: str) -> type[ColumnSet]:
    """Return the class of one mode.

    Raises
    ------
    PredictorError
        There is no such mode.
    """
    if mode not in COLUMN_SETS:
        raise PredictorError(f"mode {mode!r} has no columns; it is one of {', '.join(sorted(COLUMN_SETS))}")
    return COLUMN_SETS[mode]


def feature_matrix(rows: Sequence[ColumnSet], kind: type[ColumnSet]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return the column names (sorted) and the values, shape ``(len(rows), num_columns)``.

    Raises
    ------
    PredictorError
        A row is of another mode, or rows do not share their columns.
    """
    for row in rows:
        if type(row) is not kind:
            raise PredictorError(
                f"a {kind.mode} matrix cannot take a {row.mode} row: it may hold columns that this mode must not see; "
                f"build the row with {kind.__name__}.from_groups"
            )
    names = tuple(sorted(rows[0].values))
    for row in rows:
        odd = sorted(set(row.values) ^ set(names))
        if odd:
            raise PredictorError(
                f"column {odd[0]!r} is present in some adapters and absent in others ({len(odd)} such columns): "
                "the features were extracted by different versions; extract them again"
            )
    return names, np.array([[row.values[name] for name in names] for row in rows], dtype=np.float64)
