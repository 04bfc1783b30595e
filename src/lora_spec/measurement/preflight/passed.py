"""The preflight that passed before, and whether it still answers what is asked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from lora_spec.config.preflight_settings import PreflightSettings, is_covered
from lora_spec.errors import LoraSpecError
from lora_spec.typed import read_typed_result


class PreflightPayload(TypedDict):
    """What a passed preflight wrote: what it asked, by which code, and the machine that it found."""

    settings: PreflightSettings
    code: str
    machine: dict[str, Any]


def settled(path: Path, asked: Mapping[str, Any], *, code: str, tier: str) -> Mapping[str, Any] | None:
    """Return what the preflight at ``path`` asked, where that is all that is asked now, or more, by the same code.

    None where it is not, or where the file is missing, half written, edited, or of another tier or version.
    """
    try:
        passed = read_typed_result(path, "preflight", PreflightPayload, tier=tier).payload
    except LoraSpecError:
        return None
    return passed["settings"] if passed["code"] == code and is_covered(asked, passed["settings"]) else None
