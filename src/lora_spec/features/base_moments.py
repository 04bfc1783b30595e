"""Columns of an update weighted by what the base's modules really read: the second moments of their inputs."""

import math
from collections.abc import Sequence

from lora_spec.features.columns import BASE_FAMILIES, BaseMomentColumns
from lora_spec.features.families import THIRDS
from lora_spec.features.ladder import energies_of, log_norm
from lora_spec.features.on_base import UpdateOnBase


def base_moment_columns(updates: Sequence[UpdateOnBase]) -> BaseMomentColumns:
    """Return the columns of one adapter from its updates on the base."""
    columns = {
        "base_act_log_shift_total": _log_root([u.shift for u in updates]),
        "base_act_log_relative_total": _log_root([u.relative_shift for u in updates]),
        "base_act_log_relative_largest": log_norm(max(u.relative_shift for u in updates)),
        "base_act_input_gain_mean": _mean_gain(updates),
    }
    for third in THIRDS:
        held = [u for u in updates if u.third == third]
        columns[f"base_act_log_relative_{third}"] = _log_root([u.relative_shift for u in held])
        for family in BASE_FAMILIES:
            shifts = [u.shift for u in held if u.family == family]
            columns[f"base_act_log_shift_{third}_{family}"] = _log_root(shifts)
    return BaseMomentColumns(columns)


def _log_root(values: Sequence[float]) -> float:
    return log_norm(math.hypot(*values))


def _mean_gain(updates: Sequence[UpdateOnBase]) -> float:
    weights = energies_of(u.fro_norm for u in updates)
    total = math.fsum(weights)
    gains = math.fsum(weight * u.input_gain for weight, u in zip(weights, updates, strict=True))
    return gains / total if total else 0.0
