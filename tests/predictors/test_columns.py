import math

import pytest

from lora_spec.errors import PredictorError
from lora_spec.predictors.columns import (
    BASE_ABLATION,
    COLUMN_SETS,
    CheckpointCalibColumns,
    CheckpointOnlyColumns,
    column_set_of,
    feature_matrix,
)

GROUPS = {
    "checkpoint_only": {"norm": 1.0, "rank": 8.0},
    "checkpoint_base": {"base_relative_norm": 0.1},
    "checkpoint_meta": {"meta_alpha": 16.0},
    "checkpoint_calib": {"calib_top1_agreement": 0.3},
}


def test_each_mode_takes_its_own_groups_only():
    taken = {mode: set(cls.from_groups(GROUPS).values) for mode, cls in COLUMN_SETS.items()}
    assert taken["checkpoint_only"] == {"norm", "rank"}
    assert taken["checkpoint_base"] == {"norm", "rank", "base_relative_norm"}
    assert taken["checkpoint_meta"] == {"norm", "rank", "meta_alpha"}
    assert taken["checkpoint_calib"] == {"norm", "rank", "meta_alpha", "calib_top1_agreement"}


def test_a_matrix_refuses_rows_of_a_wider_mode():
    rows = [CheckpointOnlyColumns.from_groups(GROUPS), CheckpointCalibColumns.from_groups(GROUPS)]
    with pytest.raises(PredictorError, match="checkpoint_calib row"):
        feature_matrix(rows, CheckpointOnlyColumns)


def test_a_calibration_column_smuggled_into_another_group_is_refused():
    with pytest.raises(PredictorError, match="another mode"):
        CheckpointOnlyColumns({"norm": 1.0, "calib_top1_agreement": 0.3})


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "8", True])
def test_a_value_that_is_no_finite_number_is_refused_by_name(value):
    with pytest.raises(PredictorError, match="'norm'"):
        CheckpointOnlyColumns({"norm": value})


def test_rows_with_different_columns_are_refused_by_name():
    rows = [CheckpointOnlyColumns({"norm": 1.0}), CheckpointOnlyColumns({"norm": 1.0, "extra": 2.0})]
    with pytest.raises(PredictorError, match="'extra'"):
        feature_matrix(rows, CheckpointOnlyColumns)


def test_the_order_of_columns_does_not_depend_on_the_rows():
    rows = [CheckpointOnlyColumns({"b": 2.0, "a": 1.0}), CheckpointOnlyColumns({"a": 3.0, "b": 4.0})]
    names, matrix = feature_matrix(rows, CheckpointOnlyColumns)
    assert names == ("a", "b")
    assert matrix.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_missing_group_and_an_unknown_mode_are_refused():
    with pytest.raises(PredictorError, match="checkpoint_calib"):
        CheckpointCalibColumns.from_groups({"checkpoint_only": {}, "checkpoint_meta": {}})
    with pytest.raises(PredictorError, match="measured"):
        column_set_of("measured")


def test_a_column_in_two_groups_is_refused():
    groups = GROUPS | {"checkpoint_meta": {"norm": 1.0}}
    with pytest.raises(PredictorError, match="two groups"):
        column_set_of("checkpoint_meta").from_groups(groups)


BASE_GROUPS = GROUPS | {"checkpoint_base": {"base_act_log_shift_total": 0.5, "base_margin_flip_share": 0.2}}


def test_each_step_of_the_ablation_takes_what_the_one_before_took_and_its_own():
    taken = {step: set(kind.from_groups(BASE_GROUPS).values) for step, kind in BASE_ABLATION.items()}
    assert taken["tensors"] == {"norm", "rank"}
    assert taken["moments"] == taken["tensors"] | {"base_act_log_shift_total"}
    assert taken["margins"] == taken["moments"] | {"base_margin_flip_share"}


def test_a_margin_smuggled_into_the_step_without_margins_is_refused():
    with pytest.raises(PredictorError, match="base_margin_flip_share"):
        BASE_ABLATION["moments"]({"norm": 1.0, "base_margin_flip_share": 0.2})
    rows = [kind.from_groups(BASE_GROUPS) for kind in BASE_ABLATION.values()]
    with pytest.raises(PredictorError, match="matrix cannot take"):
        feature_matrix(rows[1:], BASE_ABLATION["moments"])
