"""Summaries of record files, each held against the measurement that the config describes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lora_spec.joins import by_adapter
from lora_spec.measurement.record_checks import ExpectedMeasurement
from lora_spec.measurement.record_table import read_record_file
from lora_spec.measurement.summary import SummarySettings, summarise_record
from lora_spec.results import naming


def summarise_files(
    paths: Sequence[Path], settings: SummarySettings, expected: ExpectedMeasurement, *, tier: str
) -> list[dict[str, Any]]:
    """Return the summary of every record, in the order given.

    Raises
    ------
    ResultError
        A record is missing, of another tier or measurement, or of an adapter that stands twice.
    """
    measured = []
    for path in paths:
        result, record = read_record_file(path, tier=tier)
        expected.check(record, result.payload.get("engine") or {})
        measured.append((path, record))
    by_adapter(measured, lambda pair: pair[1].adapter, what="acceptance records")
    summaries = []
    for path, record in measured:
        with naming(path):
            summaries.append(summarise_record(record, settings))
    return summaries
