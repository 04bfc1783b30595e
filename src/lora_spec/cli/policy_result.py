"""A ``policy`` result, held to what engines take: for whoever serves or simulates by it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lora_spec.errors import ResultError
from lora_spec.joins import check_tier
from lora_spec.policy.policy_file import MAX_BYTES, MAX_DEPTH, Policy, PolicyError, parse_policy
from lora_spec.regular_file import read_regular_file
from lora_spec.results import read_result


def read_policy_result(path: Path, *, tier: str) -> tuple[Policy, Mapping[str, Any]]:
    """Return a tier's measured policy as engines read it, and the payload that they read it from.

    Raises
    ------
    ResultError, EvidenceError
        It is of another tier or kind, or no engine would take it.
    """
    payload = check_tier(read_result(path, "policy"), tier).payload
    try:
        return parse_policy(read_regular_file(path, MAX_BYTES), max_depth=MAX_DEPTH), payload
    except PolicyError as err:
        raise ResultError(f"{path}: no engine would take this policy: {err}; make it with lora-spec policy") from err
