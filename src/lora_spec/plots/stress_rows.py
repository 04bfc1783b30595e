"""The table of figure 10 from the payload of a stress result."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lora_spec.plots.context import with_context
from lora_spec.plots.policy_schemas import SERVING_STRESS
from lora_spec.records import Evidence


def serving_stress_table(payload: Mapping[str, Any], *, tier: str, evidence: Evidence) -> pd.DataFrame:
    """Return the compared policies as a checked table; ``interval_level`` is missing where there was one trial."""
    rows = [{name: row.get(name) for name in SERVING_STRESS.own_columns} for row in payload["policies"]]
    has_intervals = any(row["gain_lower"] is not None for row in rows)
    table = with_context(
        pd.DataFrame(rows),
        tier=tier,
        evidence=evidence,
        setup=payload["setup"],
        interval_level=payload["level"] if has_intervals else None,
    )
    return SERVING_STRESS.check(table)
