"""What a table declares: columns with types and meanings, keys and intervals; and holding a table to it.

Every table also holds the five context columns, so that its CSV says what its numbers mean when read alone.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from lora_spec.errors import ResultError
from lora_spec.printing import printable
from lora_spec.records import Evidence
from lora_spec.regular_file import read_regular_file
from lora_spec.results import MAX_TABLE_BYTES, naming

_DTYPES = {"str": "string", "int": "int64", "float": "float64", "bool": "bool"}
_NULLABLE_DTYPES = {"int": "Int64", "bool": "boolean"}
_MAX_CHARACTERS = 4000
_MAX_WHOLE = 2**53  # beyond it a float skips whole numbers


@dataclass(frozen=True)
class Column:
    """One column: ``kind`` is its type, ``meaning`` holds the unit, ``choices`` its closed vocabulary if any."""

    kind: Literal["str", "int", "float", "bool"]
    meaning: str
    is_nullable: bool = False
    choices: tuple[str, ...] = ()

    @property
    def dtype(self) -> str:
        """Return the pandas dtype of a checked column."""
        return _NULLABLE_DTYPES.get(self.kind, _DTYPES[self.kind]) if self.is_nullable else _DTYPES[self.kind]


_CONTEXT = {
    "tier": Column("str", "tier of the workflow, one value per table"),
    "evidence": Column("str", "evidence class of the row", choices=get_args(Evidence)),
    "setup": Column("str", "target, drafter, engine, sampler and lengths in words, one value per table"),
    "interval_level": Column("float", "level of the intervals, in (0, 1); missing where there are none", True),
    "num_rows": Column("int", "rows of the table: a table cut short says another number than it holds"),
}


@dataclass(frozen=True)
class FrameSchema:
    """The columns of one table, the ``key`` that makes a row unique, and its (lower, upper) pairs."""

    name: str
    own_columns: Mapping[str, Column]
    key: tuple[str, ...]
    intervals: tuple[tuple[str, str], ...] = ()
    one_value: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, Column]:
        """Return all columns in their order, with the context columns last."""
        return {**self.own_columns, **_CONTEXT}

    def check(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a copy with the declared columns in their order and dtypes.

        Raises
        ------
        ResultError
            A column is missing, undeclared, of another type or outside its vocabulary; a key repeats; an interval
            is upside down; or there is no row, or another number of rows than the table says.
        """
        self._check_names(frame)
        checked = pd.DataFrame({name: self._convert(frame[name], name) for name in self.columns})
        if checked.empty:
            raise ResultError(f"table {self.name!r} has no rows: nothing to draw; run the steps that fill it")
        repeated = checked[checked.duplicated(list(self.key))]
        if not repeated.empty:
            row = repeated.iloc[0][list(self.key)].to_dict()
            raise ResultError(f"table {self.name!r}: more than one row for {row}; aggregate before drawing")
        self._check_intervals(checked)
        for name in ("tier", "setup", "interval_level", *self.one_value):
            found = sorted(map(str, checked[name].unique()))
            if len(found) > 1:
                raise ResultError(f"table {self.name!r}: {name} must be one value, found {', '.join(found)}")
        level = checked["interval_level"].iloc[0]
        if not (pd.isna(level) or 0 < level < 1):
            raise ResultError(f"table {self.name!r}: interval_level {level:g} is no level; make the table again")
        self._check_num_rows(checked)
        return checked

    def read_csv(self, path: Path) -> pd.DataFrame:
        """Return the checked table from the CSV beside a figure, with every float as it was written."""
        try:
            data = read_regular_file(path, MAX_TABLE_BYTES)
            if not data.endswith(b"\n"):
                raise ValueError("its last line has no end: it was cut")
            text = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False, encoding="utf-8")
        except (OSError, ValueError) as err:
            reason = getattr(err, "strerror", None) or " ".join(str(err).split())
            raise ResultError(f"{path}: not a readable table ({reason}); run the step that draws it again") from err
        with naming(path):
            return self.check(text.replace({"": None}))

    def _check_names(self, frame: pd.DataFrame) -> None:
        missing = [name for name in self.columns if name not in frame.columns]
        unknown = [str(name) for name in frame.columns if name not in self.columns]
        if missing or unknown:
            found = [f"lacks {', '.join(missing)}"] if missing else []
            found += [f"holds undeclared {', '.join(unknown)}"] if unknown else []
            raise ResultError(f"table {self.name!r} {' and '.join(found)}; declared are {', '.join(self.columns)}")

    def _convert(self, series: pd.Series, name: str) -> pd.Series:
        column = self.columns[name]
        values = [None if pd.isna(value) else value for value in series]
        if None in values and not column.is_nullable:
            raise ResultError(f"table {self.name!r}: column {name} has missing values in a column that needs all")
        try:
            converted = [None if value is None else _CONVERTERS[column.kind](value) for value in values]
        except (ArithmeticError, TypeError, ValueError) as err:
            raise ResultError(f"table {self.name!r}: column {name} is not of type {column.kind} ({err})") from err
        strangers = sorted({str(value) for value in converted if value is not None} - set(column.choices))
        if column.choices and strangers:
            raise ResultError(
                f"table {self.name!r}: column {name} holds {', '.join(strangers)}; allowed are "
                f"{', '.join(column.choices)}"
            )
        return pd.Series(converted, dtype=column.dtype)

    def _check_num_rows(self, checked: pd.DataFrame) -> None:
        said = sorted(set(checked["num_rows"].tolist()))
        if said != [len(checked)]:
            raise ResultError(
                f"table {self.name!r} has {len(checked)} rows but says {', '.join(map(str, said))}: it was cut or "
                "joined by hand; make it again"
            )

    def _check_intervals(self, checked: pd.DataFrame) -> None:
        for lower, upper in self.intervals:
            wrong = checked[checked[lower] > checked[upper]]
            if not wrong.empty:
                row = wrong.iloc[0][list(self.key)].to_dict()
                raise ResultError(f"table {self.name!r}: {lower} exceeds {upper} for {row}; bounds are swapped")


def _to_str(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a text")
    # Safe once, here, for every terminal, page and figure that shows it: the words come from files of others.
    return printable(value, _MAX_CHARACTERS)


def _to_int(value: Any) -> int:
    # By way of float: pandas writes a column of whole numbers with a gap in it as 3.0.
    number = float(value)
    if isinstance(value, bool | np.bool_) or not number.is_integer() or abs(number) > _MAX_WHOLE:
        raise ValueError(f"{value!r} is not a whole number of at most 53 bits")
    return int(number)


def _to_float(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool | np.bool_) or not np.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number


def _to_bool(value: Any) -> bool:
    named = {"True": True, "False": False}
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if value in named:
        return named[value]
    raise ValueError(f"{value!r} is neither True nor False")


_CONVERTERS = {"str": _to_str, "int": _to_int, "float": _to_float, "bool": _to_bool}
