"""What an adapter would do to its base by the base's profile, for people and programs that look at one adapter."""

from pathlib import Path
from typing import Any

from lora_spec.adapter import Inspection
from lora_spec.features.base_margins import base_margin_columns
from lora_spec.features.base_moments import base_moment_columns
from lora_spec.features.base_profile import read_base_profile
from lora_spec.features.on_base import put_on_base


def effect_on_base(path: Path, inspection: Inspection, profile_path: Path) -> dict[str, Any]:
    """Return what every module's update does and the columns, as plain JSON data.

    Raises
    ------
    BaseProfileError
        The profile cannot be read, or its base lacks a module that the adapter changes.
    """
    profile = read_base_profile(profile_path)
    updates = put_on_base(path, inspection, profile)
    columns = {**base_moment_columns(updates).values, **base_margin_columns(updates, profile).values}
    return {
        "target": profile.header["target"]["name"],
        "drafter": profile.header["drafter"]["name"],
        "sha256": profile.sha256,
        "num_positions": len(profile.margins),
        "modules": [
            {"name": u.name, "shift": u.shift, "relative_shift": u.relative_shift, "input_gain": u.input_gain}
            for u in updates
        ],
        "columns": columns,
    }
