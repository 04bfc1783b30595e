"""Hold a run's verdict table against the shipped one, by the tolerance of docs/claims.md: PASS or DIFF per adapter.

On the same kind of processor a speedup may move by :data:`SPEEDUP_TOLERANCE`. Another kind multiplies bfloat16 in
another way: step times change their ratios, greedy texts part, and what must hold is action, sign and order.
"""

from dataclasses import dataclass

import pandas as pd

from lora_spec.errors import EvidenceError
from lora_spec.plots.verdict_table import verdict_text

SPEEDUP_TOLERANCE = 0.05
"""Most that a speedup may differ on the same kind of processor."""


@dataclass(frozen=True)
class Comparison:
    """One adapter in both tables."""

    adapter: str
    is_equal: bool
    text: str


def compare_verdicts(new: pd.DataFrame, shipped: pd.DataFrame) -> list[Comparison]:
    """Return one line per adapter that stands in either table.

    An adapter passes if the intervals of its measured acceptance length overlap, action and depth are the same, and
    its speedup is within the tolerance; on another kind of processor, if the speedup lies on the same side of 1 and no
    order of two adapters that was clear is turned round clearly. A kind that is not recorded counts as the same.

    Raises
    ------
    EvidenceError
        A table does not rest on measurements, or the two are of different set-ups.
    """
    _check_comparable(new, shipped)
    is_other = is_other_processor(new, shipped)
    rows = []
    news, shippeds = (frame.set_index("adapter") for frame in (new, shipped))
    for adapter in dict.fromkeys([*shippeds.index, *news.index]):
        if adapter not in news.index or adapter not in shippeds.index:
            missing = "this run" if adapter not in news.index else "the shipped table"
            rows.append(Comparison(adapter, is_equal=False, text=f"not in {missing}"))
            continue
        turned = _turned_round(adapter, news, shippeds) if is_other else []
        rows.append(_compare(adapter, news.loc[adapter], shippeds.loc[adapter], is_other=is_other, turned=turned))
    return rows


def is_other_processor(new: pd.DataFrame, shipped: pd.DataFrame) -> bool:
    """Return whether both tables say what their processors can do, and it is not the same."""
    kinds = [frame["processor"].iloc[0] for frame in (new, shipped)]
    return not any(pd.isna(kind) for kind in kinds) and kinds[0] != kinds[1]


def describe_processors(new: pd.DataFrame, shipped: pd.DataFrame) -> str:
    """Return on what the two tables were timed, and what is therefore asked of speedups."""
    one, other = (
        "not recorded" if pd.isna(kind) else kind for kind in (new["processor"].iloc[0], shipped["processor"].iloc[0])
    )
    asked = (
        "other processor: speedups need the same sign and order only"
        if is_other_processor(new, shipped)
        else f"speedups within {SPEEDUP_TOLERANCE}"
    )
    return f"processor: {one} (shipped: {other}); {asked}"


def _check_comparable(new: pd.DataFrame, shipped: pd.DataFrame) -> None:
    for frame in (new, shipped):
        if others := sorted(set(frame["evidence"]) - {"measured"}):
            raise EvidenceError(f"a verdict table is {others[0]}, which proves nothing; compare measured runs")
    for column in ("tier", "setup", "interval_level"):
        one, other = new[column].iloc[0], shipped[column].iloc[0]
        if one != other:
            raise EvidenceError(f"the tables differ in {column}: {one} against {other}; compare runs of one set-up")


def _compare(adapter: str, new: pd.Series, shipped: pd.Series, *, is_other: bool, turned: list[str]) -> Comparison:
    found = {
        "acceptance length": _overlap(new, shipped),
        "verdict": verdict_text(new) == verdict_text(shipped),
        "speedup": _is_same_side(new, shipped) if is_other else _is_near(new, shipped),
        f"order against {', '.join(turned)}": not turned,
    }
    parts = [
        f"acceptance length {_number(new['acceptance_length'])} (shipped {_number(shipped['acceptance_length'])})",
        f"{verdict_text(new)} (shipped {verdict_text(shipped)})",
        f"speedup {_number(new['speedup'])} (shipped {_number(shipped['speedup'])})",
    ]
    if is_other and not _is_near(new, shipped):
        parts.append(f"more than {SPEEDUP_TOLERANCE} apart: other processor")
    if others := [name for name, is_same in found.items() if not is_same]:
        parts.append(f"differs: {'; '.join(others)}")
    return Comparison(adapter, is_equal=not others, text=", ".join(parts))


def _number(value: object) -> str:
    return "-" if pd.isna(value) else f"{value:.2f}"


def _overlap(new: pd.Series, shipped: pd.Series) -> bool:
    if pd.isna(new["lower"]) or pd.isna(shipped["lower"]):
        return bool(pd.isna(new["lower"]) and pd.isna(shipped["lower"]))
    return bool(new["lower"] <= shipped["upper"] and shipped["lower"] <= new["upper"])


def _is_near(new: pd.Series, shipped: pd.Series) -> bool:
    one, other = new["speedup"], shipped["speedup"]
    if pd.isna(one) or pd.isna(other):
        return bool(pd.isna(one) and pd.isna(other))
    return bool(abs(one - other) <= SPEEDUP_TOLERANCE)


def _side(row: pd.Series) -> int:
    """Return 1 for a gain, -1 for a loss, 0 where the interval holds 1 or is missing."""
    return int(row["speedup_lower"] > 1) - int(row["speedup_upper"] < 1)


def _is_same_side(new: pd.Series, shipped: pd.Series) -> bool:
    return _side(new) * _side(shipped) >= 0


def _turned_round(adapter: str, news: pd.DataFrame, shippeds: pd.DataFrame) -> list[str]:
    """Return the adapters that this one is clearly faster than in one table and clearly slower than in the other."""
    return [
        other
        for other in news.index.intersection(shippeds.index)
        if _order(news, adapter, other) * _order(shippeds, adapter, other) < 0
    ]


def _order(table: pd.DataFrame, one: str, other: str) -> int:
    lower, upper = table["speedup_lower"], table["speedup_upper"]
    return int(lower[one] > upper[other]) - int(upper[one] < lower[other])
