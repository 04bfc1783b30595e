"""Columns of an adapter's metadata: what its config says, none of it read from the values of tensors."""

import math

from lora_spec.adapter import Inspection
from lora_spec.adapter.config import DEFAULT_ALPHA
from lora_spec.adapter.dtypes import BITS
from lora_spec.features.columns import CheckpointMetaColumns


def checkpoint_meta_columns(inspection: Inspection) -> CheckpointMetaColumns:
    """Return the metadata columns of an inspected adapter."""
    config, modules = inspection.config, inspection.modules
    num_parameters = [module.rank * (module.in_features + module.out_features) for module in modules]
    total = sum(num_parameters)
    bits = sum(count * _mean_bits(module.dtype) for count, module in zip(num_parameters, modules, strict=True))
    scales = [abs(module.scale) for module in modules if module.scale]
    dropout = config.get("lora_dropout")
    return CheckpointMetaColumns(
        {
            "meta_rank_largest": float(max(module.rank for module in modules)),
            "meta_rank_mean": sum(module.rank for module in modules) / len(modules),
            "meta_alpha": float(config.get("lora_alpha", DEFAULT_ALPHA)),
            "meta_log_scale_mean": sum(map(math.log, scales)) / len(scales) if scales else 0.0,
            "meta_use_rslora": float(bool(config.get("use_rslora"))),
            "meta_lora_dropout": float(dropout) if _is_fraction(dropout) else 0.0,
            "meta_has_rank_pattern": float(bool(config.get("rank_pattern"))),
            "meta_has_alpha_pattern": float(bool(config.get("alpha_pattern"))),
            "meta_has_default_initialisation": float(config.get("init_lora_weights", True) is True),
            "meta_log_num_parameters": math.log(total),
            "meta_bits_per_parameter": bits / total,
        }
    )


def _mean_bits(dtype: str) -> float:
    names = dtype.split("+")
    return sum(BITS[name] for name in names) / len(names)


def _is_fraction(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
