"""The ``features`` result: its payload, and reading it."""

from pathlib import Path
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from lora_spec.typed import AdapterName, read_typed_result


class AdapterIdentity(TypedDict):
    """Which weights the features are of."""

    name: AdapterName
    weights_sha256: str
    config_sha256: str
    num_modules: int
    num_bytes: int


class FeaturesPayload(TypedDict):
    """What :meth:`lora_spec.features.AdapterFeatures.to_dict` gives."""

    adapter: AdapterIdentity
    status: Literal["ok", "abstain"]
    codes: list[str]
    message: str
    columns: dict[str, dict[str, float]]
    base_profile_sha256: NotRequired[str]


def read_features(path: Path, *, tier: str | None = None) -> dict[str, Any]:
    """Return the features of one adapter; raises ResultError that names the file."""
    return read_typed_result(path, "features", FeaturesPayload, tier=tier).payload
