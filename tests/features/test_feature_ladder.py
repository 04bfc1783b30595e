"""Checkpoint features: invariance, agreement with dense spectra, zeros, and the isolation of modes."""

import math

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import plain
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_spec.errors import AdapterError
from lora_spec.features import (
    CheckpointMetaColumns,
    CheckpointOnlyColumns,
    ColumnError,
    extract_features,
    features_record,
    matrix_of,
)
from lora_spec.features.spectral import spectrum_numbers

TARGETS = ["q_proj", "v_proj", "down_proj"]


def draw_modules(seed, rank=4):
    rng = np.random.default_rng(seed)
    sizes = {"self_attn.q_proj": (16, 16), "self_attn.v_proj": (8, 16), "mlp.down_proj": (16, 32)}
    return {
        f"model.layers.{layer}.{name}": (rng.normal(size=(rank, size[1])), rng.normal(size=(size[0], rank)))
        for layer in range(6)
        for name, size in sizes.items()
    }


def features_of(folder, modules, **config):
    stored = {path: (kit.store(a, "F64"), kit.store(b, "F64")) for path, (a, b) in modules.items()}
    return extract_features(plain(folder, modules=stored, target_modules=TARGETS, **config))


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_columns_do_not_depend_on_how_the_update_is_factored(tmp_path_factory, seed):
    modules, rng = draw_modules(seed), np.random.default_rng(seed)
    regauged = {}
    for path, (a, b) in modules.items():
        g = rng.normal(size=(4, 4)) + 3 * np.eye(4)
        regauged[path] = (g @ a, b @ np.linalg.inv(g))
    folder = tmp_path_factory.mktemp("gauge")
    before, after = (features_of(folder / name, m) for name, m in (("before", modules), ("after", regauged)))
    for name, value in before.checkpoint_only.values.items():
        assert math.isclose(after.checkpoint_only.values[name], value, rel_tol=1e-6, abs_tol=1e-7), name


def test_columns_do_not_depend_on_how_the_scale_is_split(tmp_path):
    modules = draw_modules(0)
    halved = {path: (a, b / 2) for path, (a, b) in modules.items()}
    before = features_of(tmp_path / "before", modules, lora_alpha=8)
    after = features_of(tmp_path / "after", halved, lora_alpha=16)
    assert before.checkpoint_only.values == pytest.approx(after.checkpoint_only.values)
    assert before.checkpoint_meta.values != after.checkpoint_meta.values


def test_columns_agree_with_dense_float64_decompositions(tmp_path):
    modules = draw_modules(1)
    columns = features_of(tmp_path / "a", modules).checkpoint_only.values
    dense = {path: np.linalg.svd(2 * b @ a, compute_uv=False) for path, (a, b) in modules.items()}
    energy = {path: (values**2).sum() for path, values in dense.items()}
    total = sum(energy.values())
    assert columns["log_fro_total"] == pytest.approx(math.log(total) / 2)
    assert columns["log_nuclear_total"] == pytest.approx(math.log(sum(values.sum() for values in dense.values())))
    early = sum(e for path, e in energy.items() if path.startswith(("model.layers.0.", "model.layers.1.")))
    assert columns["energy_share_early"] == pytest.approx(early / total)
    queries = sum(energy[f"model.layers.{layer}.self_attn.q_proj"] for layer in (2, 3))
    assert columns["log_fro_middle_query_key"] == pytest.approx(math.log(queries) / 2)
    ranks = {path: energy[path] / values[0] ** 2 for path, values in dense.items()}
    assert columns["stable_rank_all"] == pytest.approx(sum(energy[p] * ranks[p] for p in dense) / total)
    downs = [path for path in dense if path.endswith("down_proj")]
    assert columns["stable_rank_mlp"] == pytest.approx(
        sum(energy[p] * ranks[p] for p in downs) / sum(energy[p] for p in downs)
    )


@pytest.mark.parametrize("count", [1, 3, 7])
def test_equal_singular_values_have_every_rank_equal_to_their_number(count):
    numbers = spectrum_numbers(np.full(count, 0.3))
    for value in (numbers.stable_rank, numbers.effective_rank, numbers.participation_ratio):
        assert value == pytest.approx(count)
    assert numbers.energy_top1 == pytest.approx(1 / count)
    assert numbers.energy_top4 == pytest.approx(min(1.0, 4 / count))


def test_spectra_of_any_size_stay_in_range():
    for size in (1e-200, 1e150):
        numbers = spectrum_numbers(size * np.array([1.0, 0.5, 0.0]))
        assert numbers.stable_rank == pytest.approx(1.25)
        assert 1 < numbers.effective_rank < 2


def test_a_zero_update_has_finite_columns_and_says_so(tmp_path):
    columns = features_of(tmp_path / "a", {p: (a, 0 * b) for p, (a, b) in draw_modules(2).items()}).checkpoint_only
    assert columns.values["is_zero_update"] == 1
    assert columns.values["stable_rank_all"] == columns.values["energy_share_late"] == 0
    assert columns.values["log_fro_total"] == pytest.approx(math.log(1e-6))


def test_unusable_adapters_are_refused_with_their_codes(tmp_path):
    folder = plain(tmp_path / "a", r=8)
    with pytest.raises(AdapterError, match="rank 4") as caught:
        extract_features(folder)
    assert caught.value.codes == ("E_RANK_CONFIG",)


def test_an_abstaining_adapter_keeps_its_status_beside_its_columns(tmp_path):
    record = features_record(plain(tmp_path / "a", use_dora=True), name="weighty")
    assert (record["status"], record["codes"]) == ("abstain", ["A_DORA"])
    assert record["adapter"]["name"] == "weighty"
    assert set(record["columns"]) == {"checkpoint_only", "checkpoint_meta"}


def test_metadata_columns_change_with_the_config_alone(tmp_path):
    plain_columns = features_of(tmp_path / "a", draw_modules(3)).checkpoint_meta.values
    stable = features_of(tmp_path / "b", draw_modules(3), use_rslora=True).checkpoint_meta.values
    assert plain_columns["meta_rank_largest"] == 4
    assert stable["meta_use_rslora"] == 1
    assert stable["meta_log_scale_mean"] == pytest.approx(math.log(8 / 2))


def test_a_matrix_takes_only_columns_of_its_own_mode():
    rows = [CheckpointOnlyColumns(dict.fromkeys(CheckpointOnlyColumns.names, float(i))) for i in range(2)]
    assert matrix_of(rows, CheckpointOnlyColumns).shape == (2, len(CheckpointOnlyColumns.names))
    meta = CheckpointMetaColumns(dict.fromkeys(CheckpointMetaColumns.names, 1.0))
    with pytest.raises(ColumnError, match="checkpoint_meta"):
        matrix_of([*rows, meta], CheckpointOnlyColumns)


def test_a_subclass_cannot_smuggle_columns_into_a_mode():
    class Disguised(CheckpointOnlyColumns):
        pass

    with pytest.raises(ColumnError):
        matrix_of([Disguised(dict.fromkeys(CheckpointOnlyColumns.names, 1.0))], CheckpointOnlyColumns)


@pytest.mark.parametrize("value", [math.nan, math.inf, None, True, "1"])
def test_a_column_holds_a_finite_number(value):
    values = dict.fromkeys(CheckpointOnlyColumns.names, 1.0)
    with pytest.raises(ColumnError, match="log_fro_total"):
        CheckpointOnlyColumns({**values, "log_fro_total": value})


def test_a_planted_calibration_column_is_refused():
    values = dict.fromkeys(CheckpointOnlyColumns.names, 1.0)
    with pytest.raises(ColumnError, match="calib_kl"):
        CheckpointOnlyColumns({**values, "calib_kl": 0.5})


def test_column_names_of_modes_do_not_overlap():
    assert not set(CheckpointOnlyColumns.names) & set(CheckpointMetaColumns.names)


@pytest.mark.parametrize("alpha", [1e-200, 1e-300, 1e200, 5e306])
def test_an_extreme_alpha_moves_logarithms_and_leaves_shapes(tmp_path, alpha):
    modules = draw_modules(2)
    before = features_of(tmp_path / "a", modules, lora_alpha=8).checkpoint_only.values
    after = features_of(tmp_path / "b", modules, lora_alpha=alpha).checkpoint_only.values
    for name, value in before.items():
        wanted = max(value + math.log(alpha / 8), math.log(1e-6)) if name.startswith("log_") else value
        if name not in ("log_num_modules", "log_fro_outside_layers") and value > math.log(1e-6):
            assert after[name] == pytest.approx(wanted, rel=1e-9), name
    assert after["is_zero_update"] == 0
