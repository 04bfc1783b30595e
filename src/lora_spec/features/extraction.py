"""From an adapter folder to its columns."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lora_spec.adapter import Inspection, inspect_adapter
from lora_spec.adapter.digest import weights_sha256
from lora_spec.features.columns import CheckpointBaseColumns, CheckpointMetaColumns, CheckpointOnlyColumns
from lora_spec.features.ladder import checkpoint_only_columns
from lora_spec.features.metadata import checkpoint_meta_columns
from lora_spec.features.relative import relative_to_base
from lora_spec.provenance import sha256_of_json


@dataclass(frozen=True)
class AdapterFeatures:
    """The columns of one adapter, by mode; ``status`` says whether scale*B*A is all there is to it."""

    adapter: dict[str, Any]
    status: str
    codes: tuple[str, ...]
    message: str
    checkpoint_only: CheckpointOnlyColumns
    checkpoint_meta: CheckpointMetaColumns
    checkpoint_base: CheckpointBaseColumns | None
    inspection: Inspection = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the payload of a ``features`` result."""
        columns = {
            "checkpoint_only": dict(self.checkpoint_only.values),
            "checkpoint_meta": dict(self.checkpoint_meta.values),
        }
        if self.checkpoint_base is not None:
            columns["checkpoint_base"] = dict(self.checkpoint_base.values)
        return {
            "adapter": self.adapter,
            "status": self.status,
            "codes": list(self.codes),
            "message": self.message,
            "columns": columns,
        }


def extract_features(path: Path, *, name: str | None = None, base: Path | None = None) -> AdapterFeatures:
    """Return the features of an adapter that is ``ok`` or that abstains with readable factors.

    Parameters
    ----------
    name
        What results call the adapter; the folder's name if None.
    base
        A local folder with the base model's weights, for the columns relative to it.

    Raises
    ------
    AdapterError
        The adapter is unusable; its ``codes`` say why.
    """
    inspection = inspect_adapter(path)
    inspection.raise_if_unusable()
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
    )


def features_record(path: Path, *, name: str, base: Path | None = None) -> dict[str, Any]:
    """Return the payload of a ``features`` result for one adapter; raises like :func:`extract_features`."""
    return extract_features(path, name=name, base=base).to_dict()
