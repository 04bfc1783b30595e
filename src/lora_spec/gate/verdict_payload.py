"""The parts of a verdict's JSON that every reader of verdicts shares; light, for the operator's commands."""

from typing import Literal

from typing_extensions import TypedDict

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
