"""Entries of an observations file held to their form, and to what they say of themselves.

Keys that this version does not read are left alone: others may write more than it asks for.
"""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from lora_spec.config.fields import Flag, PointInTime
from lora_spec.config.phase0_matrix import AxesConfig
from lora_spec.config.phase0_runtime import CacheSemanticsConfig
from lora_spec.errors import MeasurementError, ResultError
from lora_spec.measurement.composability.cells import AxisValue, cell_id_of
from lora_spec.measurement.composability.judge import Status, replaced_settings
from lora_spec.records import AcceptanceCounts
from lora_spec.typed import check_type

_AGAIN = "measure it again with phase0_vllm_runner --again"
_CLAIMS = frozenset(CacheSemanticsConfig.model_fields)


class CheckEntry(TypedDict):
    """One check of a cell."""

    name: str
    outcome: Literal["ok", "wrong", "unknown"]
    detail: str
    numbers: dict[str, Any]


class CellEntry(TypedDict):
    """What is read of a cell's observation."""

    cell_id: str
    axes: dict[str, AxisValue]
    vllm_version: str
    status: Status
    reason: str
    timestamp: PointInTime
    digest: NotRequired[str]
    checks: NotRequired[list[CheckEntry]]
    replaced: NotRequired[dict[str, AxisValue]]
    in_force: NotRequired[dict[str, AxisValue] | None]
    history: NotRequired[list[dict[str, Any]]]


class CacheEntry(TypedDict):
    """What is read of the observation of a claim about the caches."""

    test: str
    vllm_version: str
    status: Status
    reason: str
    timestamp: PointInTime
    expected: Flag
    observed: Flag | None
    digest: NotRequired[str]
    history: NotRequired[list[dict[str, Any]]]


def check_cell_entry(entry: Mapping[str, Any], where: str) -> None:
    """Refuse a cell's observation that lacks what is read of it, or that contradicts itself.

    Raises
    ------
    ResultError
        A key is missing or of another type, the axes are not those of the name, or the status is not what its own
        checks, counts and settings say.
    """
    _check_form(CellEntry, entry, where)
    axes, status = entry["axes"], entry["status"]
    if set(axes) != set(AxesConfig.model_fields) or cell_id_of(axes) != entry["cell_id"]:
        raise ResultError(f"{where}: its axes are not those of its name; {_AGAIN}")
    outcomes = [check["outcome"] for check in entry.get("checks", ())]
    if status in ("works", "wrong") and (not outcomes or ("wrong" in outcomes) != (status == "wrong")):
        told = ", ".join(outcomes) or "nothing"
        raise ResultError(f"{where}: its status is {status}, its checks say {told}; {_AGAIN}")
    for check in entry.get("checks", ()):
        _check_counts(check, where)
    in_force, replaced = entry.get("in_force"), entry.get("replaced", {})
    if set(replaced) - set(axes) or (status in ("works", "wrong") and in_force is not None):
        expected = replaced_settings(axes, in_force or {})
        if replaced != expected:
            raise ResultError(f"{where}: says that {replaced} was replaced, in force was {in_force}; {_AGAIN}")


def _check_counts(check: Mapping[str, Any], where: str) -> None:
    """Hold counters that were found in order to what counters can be."""
    fields = AcceptanceCounts.__dataclass_fields__
    if check["name"] != "counters" or check["outcome"] != "ok" or not set(fields) <= set(check["numbers"]):
        return
    counts = {key: check["numbers"][key] for key in fields}
    try:
        check_type(AcceptanceCounts, counts, where)
    except (ResultError, MeasurementError) as err:
        raise ResultError(f"{where}: its counters cannot be ({err}); {_AGAIN}") from err


def check_cache_entry(entry: Mapping[str, Any], where: str) -> None:
    """Refuse the observation of a claim that lacks what is read of it, or that contradicts itself; ResultError."""
    _check_form(CacheEntry, entry, where)
    if entry["test"] not in _CLAIMS:
        raise ResultError(f"{where}: no such claim; phase0_runtime.yaml has {', '.join(sorted(_CLAIMS))}")
    is_as_expected = entry["observed"] == entry["expected"]
    if entry["observed"] is not None and is_as_expected != (entry["status"] == "works"):
        raise ResultError(
            f"{where}: its status is {entry['status']}, expected was {entry['expected']} and observed "
            f"{entry['observed']}; {_AGAIN}"
        )
    if entry["observed"] is None and entry["status"] == "works":
        raise ResultError(f"{where}: its status is works, and nothing was observed; {_AGAIN}")


def _check_form(form: Any, entry: Mapping[str, Any], where: str) -> None:
    check_type(form, {key: entry[key] for key in form.__annotations__ if key in entry}, where)
