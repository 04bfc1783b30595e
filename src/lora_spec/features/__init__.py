"""Turns an adapter into numbers that do not depend on how B*A is factored; knows nothing of acceptance."""

from lora_spec.features.base_profile import BaseProfile, BaseProfileError, read_base_profile
from lora_spec.features.columns import (
    BaseMarginColumns,
    BaseMomentColumns,
    CheckpointBaseColumns,
    CheckpointCalibColumns,
    CheckpointMetaColumns,
    CheckpointOnlyColumns,
    ColumnError,
    matrix_of,
)
from lora_spec.features.extraction import AdapterFeatures, extract_features, features_record

__all__ = [
    "AdapterFeatures",
    "BaseMarginColumns",
    "BaseMomentColumns",
    "BaseProfile",
    "BaseProfileError",
    "CheckpointBaseColumns",
    "CheckpointCalibColumns",
    "CheckpointMetaColumns",
    "CheckpointOnlyColumns",
    "ColumnError",
    "extract_features",
    "features_record",
    "matrix_of",
    "read_base_profile",
]
