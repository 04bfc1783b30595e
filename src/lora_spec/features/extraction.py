"""From an adapter folder to its columns."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lora_spec.adapter import Inspection, inspect_adapter
from lora_spec.adapter.digest import weights_sha256
from lora_spec.features.base_margins import base_margin_columns
from lora_spec.features.base_moments import base_moment_columns
from lora_spec.features.base_profile import BaseProfile
from lora_spec.features.columns import (
    BaseMarginColumns,
    BaseMomentColumns,
    CheckpointBaseColumns,
    CheckpointMetaColumns,
    CheckpointOnlyColumns,
)
from lora_spec.features.ladder import checkpoint_only_columns
from lora_spec.features.metadata import checkpoint_meta_columns
from lora_spec.features.on_base import put_on_base
from lora_spec.features.relative import relative_to_base
from lora_spec.provenance import sha256_of_json


@dataclass(frozen=True)
class AdapterFeatures:
    """The columns of one adapter, by mode; ``status`` says whether scale*B*A is all there is to it.

    What is relative to the base's weights is there only where they were given, and so is what a base profile gives.
    """

    adapter: dict[str, Any]
    status: str
    codes: tuple[str, ...]
    message: str
    checkpoint_only: CheckpointOnlyColumns
    checkpoint_meta: CheckpointMetaColumns
    checkpoint_base: CheckpointBaseColumns | None
    inspection: Inspection = field(repr=False, compare=False)
    base_moments: BaseMomentColumns | None = None
    base_margins: BaseMarginColumns | None = None
    base_profile_sha256: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the payload of a ``features`` result."""
        columns = {
            "checkpoint_only": dict(self.checkpoint_only.values),
            "checkpoint_meta": dict(self.checkpoint_meta.values),
        }
        beside_base = [
            held for held in (self.checkpoint_base, self.base_moments, self.base_margins) if held is not None
        ]
        if beside_base:
            columns["checkpoint_base"] = {name: value for held in beside_base for name, value in held.values.items()}
        found = {
            "adapter": self.adapter,
            "status": self.status,
            "codes": list(self.codes),
            "message": self.message,
            "columns": columns,
        }
        # Columns of two profiles bear the same names and are not the same numbers.
        return found if self.base_profile_sha256 is None else found | {"base_profile_sha256": self.base_profile_sha256}


def extract_features(
    path: Path, *, name: str | None = None, base: Path | None = None, profile: BaseProfile | None = None
) -> AdapterFeatures:
    """Return the features of an adapter that is ``ok`` or that abstains with readable factors.

    Parameters
    ----------
    name
        What results call the adapter; the folder's name if None.
    base
        A local folder with the base model's weights, for the columns relative to it.
    profile
        The base's profile, for the columns of its activations and margins.

    Raises
    ------
    AdapterError
        The adapter is unusable; its ``codes`` say why.
    BaseProfileError
        The adapter changes what the profile's base does not have, or the profile is of other weights than ``base``.
    """
    inspection = inspect_adapter(path)
    inspection.raise_if_unusable()
    if base is not None and profile is not None:
        profile.refuse_other_base(base)
    updates = None if profile is None else put_on_base(path, inspection, profile)
    return AdapterFeatures(
        adapter={
            "name": name or path.resolve().name,
            "weights_sha256": weights_sha256(path),
            "config_sha256": sha256_of_json(inspection.config),
            "num_modules": len(inspection.modules),
            "num_bytes": inspection.num_bytes,
        },
        status=inspection.status,
        codes=inspection.codes,
        message=inspection.message,
        checkpoint_only=checkpoint_only_columns(inspection.modules),
        checkpoint_meta=checkpoint_meta_columns(inspection),
        checkpoint_base=None if base is None else relative_to_base(path, inspection, base).columns,
        inspection=inspection,
        base_moments=None if updates is None else base_moment_columns(updates),
        base_margins=None if updates is None else base_margin_columns(updates, profile),
        base_profile_sha256=None if profile is None else profile.sha256,
    )


def features_record(
    path: Path, *, name: str, base: Path | None = None, profile: BaseProfile | None = None
) -> dict[str, Any]:
    """Return the payload of a ``features`` result for one adapter; raises like :func:`extract_features`."""
    return extract_features(path, name=name, base=base, profile=profile).to_dict()
