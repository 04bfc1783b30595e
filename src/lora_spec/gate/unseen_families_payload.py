"""The ``unseen_families`` result: what it holds, and reading it."""

from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from lora_spec.records import Interval
from lora_spec.results import Result
from lora_spec.typed import AdapterName, read_typed_result


class ArmCounts(TypedDict):
    """Of the adapters that both arms judge."""

    num_abstained: int
    num_out_of_distribution: int
    num_no_basis: int


class KindPayload(TypedDict):
    """All families of one kind, each adapter once."""

    kind: str
    num_adapters: int
    num_sources: int
    num_not_fitted: int
    ordinary: ArmCounts
    unseen: ArmCounts
    num_newly_abstained: int
    num_no_longer_abstained: int
    rise_of_abstained_share: Interval | None
    answer: str


class FamilyPayload(KindPayload):
    """One family."""

    family: str


class JudgedArm(TypedDict):
    """One adapter's verdict, as far as it abstains."""

    is_abstained: bool
    is_out_of_distribution: bool
    has_no_basis: bool
    codes: list[str]


class AdapterPayload(TypedDict):
    """One adapter in one family; where ``unseen`` is null, ``problem`` says why nothing could be fitted."""

    kind: str
    family: str
    adapter: AdapterName
    source: str
    num_training_adapters: int
    num_training_sources: int
    ordinary: JudgedArm
    unseen: JudgedArm | None
    problem: str | None


class UnseenFamiliesPayload(TypedDict):
    """What :func:`lora_spec.gate.unseen_families.unseen_families` gives."""

    context: dict[str, Any]
    kinds: list[KindPayload]
    families: list[FamilyPayload]
    adapters: list[AdapterPayload]


def read_unseen_families(path: Path, *, tier: str | None = None) -> Result:
    """Return the evaluation of left-out families, as plain data; raises ResultError that names the file."""
    return read_typed_result(path, "unseen_families", UnseenFamiliesPayload, tier=tier)
