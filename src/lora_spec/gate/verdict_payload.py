"""The parts of a verdict's JSON that every reader of verdicts shares; light, for the operator's commands."""

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from lora_spec.errors import ResultError
from lora_spec.records import Action
from lora_spec.typed import DepthKey, TimesFaster

_OPEN = {"extra": "allow", "strict": True, "allow_inf_nan": False}


class Open(TypedDict):
    """An object that says more than its readers need."""

    # Said once more what check_type says: a config of its own replaces the one around it.
    __pydantic_config__ = _OPEN  # type: ignore[misc]


class SpeedupEnds(TypedDict):
    """A speedup as an interval without its level."""

    estimate: TimesFaster
    lower: TimesFaster
    upper: TimesFaster


class LoadVerdict(TypedDict):
    """The verdict at one load; ``speedup_by_depth`` maps K to an interval without its level."""

    batch_size: float
    action: Action
    num_speculative_tokens: int | None
    reason_codes: list[str]
    speedup_by_depth: dict[DepthKey, SpeedupEnds]


class ReasonPayload(TypedDict):
    """One reason: its code and a sentence."""

    code: str
    message: str


def check_depths(verdict: Mapping[str, Any], where: str, *, remedy: str) -> None:
    """Refuse a verdict whose depth is not its action's, overall or at one load, or stands without its speedup.

    Parameters
    ----------
    verdict
        Already checked to be of the types that it should be.
    remedy
        What to do about it, for the message.

    Raises
    ------
    ResultError
        A depth and an action contradict each other, or the speedup of a chosen depth is missing.
    """
    speedup, depth = verdict["speedup"], verdict["num_speculative_tokens"]
    _check_action(verdict["action"], depth, where, remedy)
    if depth is not None and speedup is None:
        raise ResultError(f"{where}: no speedup beside the depth {depth}; {remedy}")
    loads = () if speedup is None else speedup["context"]["by_load"]
    if len({load["batch_size"] for load in loads}) < len(loads):
        raise ResultError(f"{where}: says two things of one batch size; {remedy}")
    for load in loads:
        place = f"{where}: batch size {load['batch_size']:g}"
        chosen = load["num_speculative_tokens"]
        _check_action(load["action"], chosen, place, remedy)
        if chosen is not None and str(chosen) not in load["speedup_by_depth"]:
            raise ResultError(f"{place}: no speedup at the chosen depth {chosen}; {remedy}")


def _check_action(action: Action, depth: int | None, where: str, remedy: str) -> None:
    if (action == "abstain") != (depth is None) or (action == "red") != (depth == 0) or (depth or 0) < 0:
        raise ResultError(f"{where}: action {action} does not fit depth {depth}; {remedy}")
