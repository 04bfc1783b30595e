"""The tables that figures are drawn from: column names, types and meanings, declared once and checked.

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
from lora_spec.plots.statuses import STATUS_STYLES, UNMEASURED
from lora_spec.records import Action, Evidence, Mode
from lora_spec.regular_file import read_regular_file
from lora_spec.results import MAX_TABLE_BYTES, naming

_DTYPES = {"str": "string", "int": "int64", "float": "float64", "bool": "bool"}
_ACTIONS = get_args(Action)
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
        return "Int64" if self.kind == "int" and self.is_nullable else _DTYPES[self.kind]


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
    return value


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

COMPOSABILITY = FrameSchema(
    "composability",
    {
        "method": Column("str", "speculation method"),
        "lora": Column("str", "adapters in a batch; any: all values, of a method that is not run"),
        "axis": Column("str", "feature whose value the row is about"),
        "value": Column("str", "its value"),
        "status": Column("str", "worst status of the cells measured there", choices=(*STATUS_STYLES, *UNMEASURED)),
        "num_worst": Column("int", "measured cells with that status"),
        "num_measured": Column("int", "measured cells; each counts once under every feature"),
    },
    key=("method", "lora", "axis", "value"),
)

PAIRED_EFFECT = FrameSchema(
    "paired_effect",
    {
        "adapter": Column("str", "name of the adapter"),
        "stratum": Column("str", "group of adapters by expected strength, in the order of first appearance"),
        "prompt_set": Column(
            "str", "own: the adapter's traffic; common: the shared prompts", choices=("own", "common")
        ),
        "delta_acceptance_length": Column("float", "adapted minus base, tokens per draft step, same prompts"),
        "lower": Column("float", "lower bound of the difference"),
        "upper": Column("float", "upper bound of the difference"),
        "num_prompts": Column("int", "paired prompts"),
        "num_drafts": Column("int", "draft steps of both arms together"),
        "threshold": Column("float", "difference at which the pre-registered effect line lies for this row"),
        "conclusion": Column("str", "answer of the effect rule for the whole pool, with its numbers"),
    },
    key=("adapter", "prompt_set"),
    intervals=(("lower", "upper"),),
    one_value=("conclusion",),
)

PREDICTED_VS_MEASURED = FrameSchema(
    "predicted_vs_measured",
    {
        "adapter": Column("str", "name of the adapter"),
        "source": Column("str", "left-out group (domain or task family) the prediction never saw"),
        "mode": Column("str", "feature mode of the predictor", choices=get_args(Mode)),
        "num_speculative_tokens": Column("int", "K of both acceptance lengths"),
        "measured": Column("float", "measured acceptance length, tokens per draft step"),
        "measured_lower": Column("float", "its lower bound"),
        "measured_upper": Column("float", "its upper bound"),
        "predicted": Column("float", "predicted acceptance length; missing where none could be made", True),
        "predicted_lower": Column("float", "its lower bound", True),
        "predicted_upper": Column("float", "its upper bound", True),
        "is_abstained": Column("bool", "the gate would not act on this prediction"),
    },
    key=("adapter", "mode"),
    intervals=(("measured_lower", "measured_upper"), ("predicted_lower", "predicted_upper")),
    one_value=("num_speculative_tokens",),
)

RANK_DISAGREEMENT = FrameSchema(
    "rank_disagreement",
    {
        "adapter": Column("str", "name of the adapter"),
        "load_batch_size": Column("int", "requests in the batch"),
        "acceptance_length": Column("float", "tokens per draft step, the same at every load"),
        "acceptance_rank": Column("float", "1 = highest acceptance length; ties share their mean rank"),
        "speedup": Column("float", "throughput over that without speculation at this load, a ratio"),
        "throughput_rank": Column("float", "1 = highest speedup at this load; ties share their mean rank"),
        "lower": Column("float", "lower bound of the speedup"),
        "upper": Column("float", "upper bound of the speedup"),
    },
    key=("adapter", "load_batch_size"),
    intervals=(("lower", "upper"),),
)

DECISION_MAP = FrameSchema(
    "decision_map",
    {
        "kind": Column(
            "str", "cell: a point of the map; adapter: one adapter at one load", choices=("cell", "adapter")
        ),
        "adapter": Column("str", "name of the adapter; missing for cells", True),
        "mode": Column("str", "where an adapter's acceptance comes from; missing for cells", True, get_args(Mode)),
        "acceptance_length": Column("float", "at the standing depth, tokens per draft step"),
        "lower": Column("float", "lower bound of the acceptance length; missing for cells", True),
        "upper": Column("float", "upper bound of the acceptance length; missing for cells", True),
        "load_batch_size": Column("int", "requests in the batch"),
        "num_speculative_tokens": Column("int", "best depth; missing where the action is abstain", True),
        "action": Column("str", "best action", choices=_ACTIONS),
        "speedup": Column("float", "best throughput over that without speculation; missing on abstain", True),
        "standing_num_speculative_tokens": Column("int", "depth that the fleet runs today"),
    },
    key=("kind", "adapter", "acceptance_length", "load_batch_size"),
    intervals=(("lower", "upper"),),
    one_value=("standing_num_speculative_tokens",),
)

COST_MODEL_FIT = FrameSchema(
    "cost_model_fit",
    {
        "num_speculative_tokens": Column("int", "drafted tokens per step"),
        "batch_size": Column("int", "requests in the batch"),
        "num_context_tokens": Column("int", "tokens of context per request"),
        "lora_rank": Column("int", "rank served; 0 without LoRA"),
        "measured_ms": Column("float", "step time over all trials"),
        "lower_ms": Column("float", "smallest step time of a trial"),
        "upper_ms": Column("float", "largest step time of a trial"),
        "predicted_ms": Column("float", "step time of the cost model"),
        "num_trials": Column("int", "interleaved trials"),
        "num_steps": Column("int", "timed steps over all trials"),
        "is_held_out": Column("bool", "the prediction comes from a fit without this cell"),
    },
    key=("num_speculative_tokens", "batch_size", "num_context_tokens", "lora_rank"),
    intervals=(("lower_ms", "upper_ms"),),
)

VERDICT_TABLE = FrameSchema(
    "verdict_table",
    {
        "adapter": Column("str", "name of the adapter"),
        "stratum": Column("str", "group of adapters by expected strength"),
        "acceptance_length": Column("float", "measured, tokens per draft step", True),
        "lower": Column("float", "its lower bound", True),
        "upper": Column("float", "its upper bound", True),
        "measured_action": Column("str", "verdict from measured acceptance", choices=_ACTIONS),
        "measured_num_speculative_tokens": Column("int", "depth of that verdict", True),
        "speedup": Column("float", "throughput over that without speculation at that depth", True),
        "predicted_action": Column("str", "verdict from the checkpoint", True, _ACTIONS),
        "reason": Column("str", "why the predicted verdict is what it is", True),
    },
    key=("adapter",),
    intervals=(("lower", "upper"),),
)
