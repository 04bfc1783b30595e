"""What every number on a figure needs beside it: tier, evidence, set-up, interval level. Draws nothing."""

from dataclasses import dataclass

import pandas as pd

from lora_spec.errors import EvidenceError
from lora_spec.records import Evidence

WATERMARK = "SYNTHETIC SMOKE - NOT EVIDENCE"


@dataclass(frozen=True)
class FigureContext:
    """The circumstances of one table, as its footer tells them."""

    tier: str
    evidence: Evidence
    setup: str
    interval_level: float | None

    @property
    def is_synthetic(self) -> bool:
        """Return whether the figure must carry the watermark."""
        return self.evidence == "synthetic-smoke"

    def footer(self, num_observations: str) -> str:
        """Return the footer: tier, evidence, ``num_observations`` (what n is, in words), level and set-up."""
        level = "" if self.interval_level is None else f" · {100 * self.interval_level:g} % intervals"
        return f"tier {self.tier} · evidence: {self.evidence} · {num_observations}{level}\n{self.setup}"


def with_context(
    frame: pd.DataFrame, *, tier: str, evidence: Evidence, setup: str, interval_level: float | None
) -> pd.DataFrame:
    """Return a copy of a table with its context columns set to one value each."""
    return frame.assign(tier=tier, evidence=evidence, setup=setup, interval_level=interval_level, num_rows=len(frame))


def context_of(checked: pd.DataFrame) -> FigureContext:
    """Return the context of a checked table; one synthetic row makes all of it synthetic.

    Raises
    ------
    EvidenceError
        A row is ``contract-only``: nothing was run, so there is nothing to show.
    """
    classes = set(checked["evidence"])
    if "contract-only" in classes:
        raise EvidenceError(
            "table holds contract-only rows, which were planned and not run; run the measurement before drawing"
        )
    first = checked.iloc[0]
    level = first["interval_level"]
    return FigureContext(
        tier=first["tier"],
        evidence="synthetic-smoke" if "synthetic-smoke" in classes else "measured",
        setup=first["setup"],
        interval_level=None if pd.isna(level) else float(level),
    )
