"""Hold a run's verdict table against the shipped one: PASS or DIFF per adapter. Draws nothing."""

from dataclasses import dataclass

import pandas as pd

from lora_spec.errors import EvidenceError
from lora_spec.plots.verdict_table import verdict_text


@dataclass(frozen=True)
class Comparison:
    """One adapter in both tables."""

    adapter: str
    is_equal: bool
    text: str


def compare_verdicts(new: pd.DataFrame, shipped: pd.DataFrame) -> list[Comparison]:
    """Return one line per adapter that stands in either table.

    An adapter passes if the intervals of its measured acceptance length overlap and action and depth are the same.
    Acceptance should agree anywhere; another machine's step times may honestly give another action, which is shown.

    Raises
    ------
    EvidenceError
        A table does not rest on measurements, or the two are of different set-ups.
    """
    for frame in (new, shipped):
        if others := sorted(set(frame["evidence"]) - {"measured"}):
            raise EvidenceError(f"a verdict table is {others[0]}, which proves nothing; compare measured runs")
    for column in ("tier", "setup", "interval_level"):
        one, other = new[column].iloc[0], shipped[column].iloc[0]
        if one != other:
            raise EvidenceError(f"the tables differ in {column}: {one} against {other}; compare runs of one set-up")
    rows = []
    news, shippeds = (frame.set_index("adapter") for frame in (new, shipped))
    for adapter in dict.fromkeys([*shippeds.index, *news.index]):
        if adapter not in news.index or adapter not in shippeds.index:
            missing = "this run" if adapter not in news.index else "the shipped table"
            rows.append(Comparison(adapter, is_equal=False, text=f"not in {missing}"))
            continue
        rows.append(_compare(adapter, news.loc[adapter], shippeds.loc[adapter]))
    return rows


def _compare(adapter: str, new: pd.Series, shipped: pd.Series) -> Comparison:
    overlap = new["lower"] <= shipped["upper"] and shipped["lower"] <= new["upper"]
    same = verdict_text(new) == verdict_text(shipped)
    parts = [
        f"acceptance length {new['acceptance_length']:.2f} (shipped {shipped['acceptance_length']:.2f})",
        f"{verdict_text(new)} (shipped {verdict_text(shipped)})",
        f"speedup {new['speedup']:.2f} (shipped {shipped['speedup']:.2f})",
    ]
    return Comparison(adapter, is_equal=bool(overlap and same), text=", ".join(parts))
