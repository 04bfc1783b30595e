"""docs/features.md names every column and no other."""

import re
from pathlib import Path

from lora_spec.features import (
    BaseMarginColumns,
    BaseMomentColumns,
    CheckpointBaseColumns,
    CheckpointCalibColumns,
    CheckpointMetaColumns,
    CheckpointOnlyColumns,
)
from lora_spec.features.columns import CALIBRATED_DEPTHS
from lora_spec.features.families import FAMILIES, THIRDS

PAGE = Path(__file__).parents[2] / "docs" / "features.md"
PLACES = {
    "{third}": THIRDS,
    "{family}": FAMILIES,
    "{part}": ("all", "attention", "mlp"),
    "{depth}": tuple(map(str, CALIBRATED_DEPTHS)),
}
KINDS = (
    CheckpointOnlyColumns,
    CheckpointMetaColumns,
    CheckpointBaseColumns,
    BaseMomentColumns,
    BaseMarginColumns,
    CheckpointCalibColumns,
)


def spelled_out(name):
    names = [name]
    for mark, values in PLACES.items():
        if mark in name:
            names = [one.replace(mark, value) for one in names for value in values]
    return names


def test_every_column_is_documented():
    told = {one for name in re.findall(r"`([a-z0-9_{}]+)`", PAGE.read_text()) for one in spelled_out(name)}
    assert not {name for kind in KINDS for name in kind.names} - told
