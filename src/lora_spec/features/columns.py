"""Column sets by mode, each a type of its own, so that one mode's matrix cannot be built from another's columns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lora_spec.errors import LoraSpecError
from lora_spec.features.families import FAMILIES, THIRDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SPECTRAL = ("stable_rank", "effective_rank", "participation_ratio", "energy_top1", "energy_top4")
_PARTS = ("all", "attention", "mlp")
CALIBRATED_DEPTHS = (1, 2, 3, 4)
"""Depths K at which a calibration probe's direct counts are columns."""
BASE_FAMILIES = FAMILIES[:-1]
"""Families that linear modules in layers are of: what a base profile can hold."""


class ColumnError(LoraSpecError):
    """A column set holds other columns than its mode declares, or a value that is no finite number."""


@dataclass(frozen=True)
class ColumnValues:
    """Finite numbers under exactly the column names that a mode declares.

    Raises
    ------
    ColumnError
        A column is missing, undeclared, or holds no finite number.
    """

    values: Mapping[str, float]

    mode: ClassVar[str]
    names: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        odd = sorted(set(self.values) ^ set(self.names))
        if odd:
            fault = "is not declared" if odd[0] in self.values else "is missing"
            raise ColumnError(f"{self.mode}: column {odd[0]!r} {fault}; extract the features again with one version")
        for name, value in self.values.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ColumnError(f"{self.mode}: column {name!r} holds {value!r}, not a finite number")


class CheckpointOnlyColumns(ColumnValues):
    """Numbers of the update's tensors and of the pattern of adapted modules; nothing else."""

    mode = "checkpoint_only"
    names = (
        "log_num_modules",
        "num_families",
        "num_layers_adapted",
        "is_zero_update",
        "log_fro_total",
        "log_fro_largest_module",
        "log_nuclear_total",
        "log_spectral_largest",
        *(f"log_fro_{third}_{family}" for third in THIRDS for family in FAMILIES),
        "log_fro_outside_layers",
        *(f"energy_share_{third}" for third in THIRDS),
        *(f"{quantity}_{part}" for quantity in _SPECTRAL for part in _PARTS),
    )


class CheckpointBaseColumns(ColumnValues):
    """Numbers of the update relative to the base model's weights; no run of any model."""

    mode = "checkpoint_base"
    names = (
        "base_log_relative_fro",
        "base_log_relative_fro_largest",
        "base_log_relative_spectral_largest",
        "base_unmatched_energy_share",
        "base_adapted_layer_share",
        "base_alignment_mean",
        "base_input_overlap_mean",
        "base_output_overlap_mean",
        *(f"base_log_relative_fro_{third}" for third in THIRDS),
    )


class BaseMomentColumns(ColumnValues):
    """Numbers of the update weighted by the second moments of what the base's modules read; no run per adapter."""

    mode = "checkpoint_base"
    names = (
        "base_act_log_shift_total",
        "base_act_log_relative_total",
        "base_act_log_relative_largest",
        "base_act_input_gain_mean",
        *(f"base_act_log_relative_{third}" for third in THIRDS),
        *(f"base_act_log_shift_{third}_{family}" for third in THIRDS for family in BASE_FAMILIES),
    )


class BaseMarginColumns(ColumnValues):
    """Numbers of the first-order change of the base's margins at traced positions; no run per adapter."""

    mode = "checkpoint_base"
    names = (
        "base_margin_flip_share",
        "base_margin_flip_share_agreed",
        "base_margin_predicted_agreement",
        "base_margin_unsettled_share",
        "base_margin_mean_change",
        "base_margin_log_rms_change",
        *(f"base_margin_ratio_{quantile}" for quantile in ("p10", "p50", "p90")),
        *(f"base_margin_log_rms_change_{third}" for third in THIRDS),
    )


class CheckpointMetaColumns(ColumnValues):
    """What the config says about the training: rank, alpha, dropout, initialisation, size."""

    mode = "checkpoint_meta"
    names = (
        "meta_rank_largest",
        "meta_rank_mean",
        "meta_alpha",
        "meta_log_scale_mean",
        "meta_use_rslora",
        "meta_lora_dropout",
        "meta_has_rank_pattern",
        "meta_has_alpha_pattern",
        "meta_has_default_initialisation",
        "meta_log_num_parameters",
        "meta_bits_per_parameter",
    )


class CheckpointCalibColumns(ColumnValues):
    """What a few calibration prompts, written by the adapted target, say of it, of the base and of the drafter."""

    mode = "checkpoint_calib"
    names = (
        "calib_log_kl_base",
        "calib_log_kl_drafter",
        "calib_js_base",
        "calib_js_drafter",
        "calib_js_base_high",
        "calib_js_drafter_high",
        "calib_js_base_early",
        "calib_overlap_drafter",
        "calib_overlap_base_drafter",
        "calib_entropy_adapted",
        "calib_entropy_base",
        "calib_entropy_drafter",
        "calib_entropy_shift",
        "calib_entropy_gap_drafter",
        "calib_surprisal_adapted",
        "calib_surprisal_base",
        "calib_surprisal_drafter",
        "calib_top1_base",
        "calib_top1_drafter",
        "calib_top1_drafter_base",
        "calib_top1_drafter_where_base_agrees",
        "calib_top1_drafter_where_base_differs",
        "calib_log_num_output_tokens",
        "calib_ended_share",
        "calib_repeated_share",
        *(f"calib_acceptance_length_{depth}" for depth in CALIBRATED_DEPTHS),
        *(f"calib_log_odds_{depth}" for depth in CALIBRATED_DEPTHS),
    )


def matrix_of(rows: Sequence[ColumnValues], kind: type[ColumnValues]) -> "NDArray[np.float64]":
    """Return the values of rows of one mode, shape ``(len(rows), len(kind.names))``, columns in declared order.

    Raises
    ------
    ColumnError
        A row is of another mode, also where its columns bear the same names.
    """
    import numpy as np

    for row in rows:
        if type(row) is not kind:
            mode = getattr(row, "mode", type(row).__name__)
            raise ColumnError(
                f"a {kind.mode} matrix cannot take {mode} columns: they may tell what this mode must not know"
            )
    return np.array([[row.values[name] for name in kind.names] for row in rows], dtype=np.float64).reshape(
        len(rows), len(kind.names)
    )
