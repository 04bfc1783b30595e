"""The parts of a verdict's JSON that every reader of verdicts shares; light, for the operator's commands."""

from collections.abc import Mapping
from typing import Any, Literal

from typing_extensions import TypedDict

from lora_spec.errors import ResultError
from lora_spec.records import Action


class Open(TypedDict):
    """An object that says more than its readers need."""

    __pydantic_config__ = {"extra": "allow"}  # type: ignore[misc]  # noqa: RUF012 - a TypedDict has no ClassVar


class LoadVerdict(TypedDict):
    """The verdict at one load; ``speedup_by_depth`` maps K to an interval without its level."""

    batch_size: float
    action: Action
    num_speculative_tokens: int | None
    reason_codes: list[str]
    speedup_by_depth: dict[str, dict[Literal["estimate", "lower", "upper"], float]]


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
    for load in () if speedup is None else speedup["context"]["by_load"]:
        place = f"{where}: batch size {load['batch_size']:g}"
        chosen = load["num_speculative_tokens"]
        _check_action(load["action"], chosen, place, remedy)
        if chosen is not None and str(chosen) not in load["speedup_by_depth"]:
            raise ResultError(f"{place}: no speedup at the chosen depth {chosen}; {remedy}")


def _check_action(action: Action, depth: int | None, where: str, remedy: str) -> None:
    if (action == "abstain") != (depth is None) or (action == "red") != (depth == 0) or (depth or 0) < 0:
        raise ResultError(f"{where}: action {action} does not fit depth {depth}; {remedy}")
