"""Norms of whole folders: every stored type, layout and size must give what the dense product gives."""

import json
import math

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import Q0, P, plain, raw

from lora_spec.adapter import blocks as blocks_module
from lora_spec.adapter import inspect_adapter, iterate_factors, measure


def modules_of(folder):
    inspection = inspect_adapter(folder)
    assert inspection.status == "ok", inspection.message
    return {module.name: module for module in inspection.modules}


def assert_agrees(module, a, b, scale):
    update = scale * (b @ a)
    values = np.linalg.svd(update, compute_uv=False)
    assert math.isclose(module.fro_norm, math.sqrt((values**2).sum()), rel_tol=1e-9)
    assert math.isclose(module.spectral_norm, values[0], rel_tol=1e-9)
    assert math.isclose(module.stable_rank, (values**2).sum() / values[0] ** 2, rel_tol=1e-9)


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16"])
@pytest.mark.parametrize("magnitude", [1e-4, 1.0, 1e3])
def test_norms_agree_with_the_dense_product(tmp_path, dtype, magnitude):
    rng = np.random.default_rng(0)
    a, b = kit.store(magnitude * rng.normal(size=(4, 50)), dtype), kit.store(rng.normal(size=(30, 4)), dtype)
    module = modules_of(plain(tmp_path / "a", modules={Q0: (a, b)}, lora_alpha=3))[Q0]
    assert_agrees(module, a.values, b.values, 3 / 4)


@pytest.mark.parametrize("exponent", [-150, 150])
def test_float64_factors_beyond_the_square_root_of_its_range_are_measured(tmp_path, exponent):
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(4, 50)), rng.normal(size=(30, 4))
    stored = kit.store(a * 10.0**exponent, "F64"), kit.store(b * 10.0**exponent, "F64")
    module = modules_of(plain(tmp_path / "a", modules={Q0: stored}))[Q0]
    wanted = 2 * np.linalg.norm(b @ a)
    assert math.isclose(math.log10(module.fro_norm), math.log10(wanted) + 2 * exponent, rel_tol=1e-9)


def test_a_convolution_is_measured_over_its_flattened_kernel(tmp_path):
    rng = np.random.default_rng(2)
    a, b = kit.store(rng.normal(size=(4, 3, 2, 2))), kit.store(rng.normal(size=(8, 4, 1, 1)))
    module = modules_of(plain(tmp_path / "a", modules={Q0: (a, b)}))[Q0]
    assert_agrees(module, a.values.reshape(4, 12), b.values.reshape(8, 4), 2.0)


def test_a_batch_of_experts_is_measured_one_by_one(tmp_path):
    rng = np.random.default_rng(3)
    a, b = kit.store(rng.normal(size=(3, 4, 16))), kit.store(rng.normal(size=(3, 10, 4)))
    path = "model.layers.0.mlp.experts"
    folder = plain(
        tmp_path / "a", modules={path: (a, b)}, target_modules=[], target_parameters=["mlp.experts.down_proj"]
    )
    modules = modules_of(folder)
    for expert in range(3):
        assert_agrees(modules[f"{path}[{expert}]"], a.values[expert], b.values[expert], 2.0)


@pytest.mark.parametrize("whole_bytes", [0, 1300])  # 1300: a few experts are held, but not all
def test_tensors_read_in_pieces_give_the_same_norms(tmp_path, monkeypatch, whole_bytes):
    rng = np.random.default_rng(4)
    path = "model.layers.0.mlp.experts"
    pairs = {Q0: kit.factors(rng, 60, 70), path: kit.factors(rng, 40, 50, rank=12)}
    folder = plain(tmp_path / "a", modules=pairs, target_parameters=["mlp.experts.down_proj"])
    whole = modules_of(folder)
    monkeypatch.setattr(blocks_module, "_WHOLE_BYTES", whole_bytes)
    monkeypatch.setattr(blocks_module, "_READ_BYTES", 700)
    monkeypatch.setattr(blocks_module, "_BLOCK_ELEMENTS", 37)
    pieces = modules_of(folder)
    assert len(whole) == 4
    for name, module in whole.items():
        np.testing.assert_allclose(pieces[name].singular_values, module.singular_values, rtol=1e-10)


def test_factors_are_given_as_stored(tmp_path):
    folder = plain(tmp_path / "a")
    wanted = kit.standard()
    for module, a, b in iterate_factors(folder):
        np.testing.assert_array_equal(a, wanted[module.name][0].values)
        np.testing.assert_array_equal(b, wanted[module.name][1].values)
        assert module.scale == 2.0


def test_a_rank_deficient_pair_is_measured(tmp_path):
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(4, 20)), rng.normal(size=(20, 4))
    a[3], b[:, 2] = a[0], 0
    stored = kit.store(a), kit.store(b)
    module = modules_of(plain(tmp_path / "a", modules={Q0: stored}))[Q0]
    assert_agrees(module, stored[0].values, stored[1].values, 2.0)


def test_negative_alpha_gives_a_negative_scale_and_the_same_norms(tmp_path):
    module = modules_of(plain(tmp_path / "a", lora_alpha=-8))[Q0]
    a, b = kit.standard()[Q0]
    assert module.scale == -2.0
    assert_agrees(module, a.values, b.values, 2.0)


def test_bf16_and_f32_factors_may_be_mixed(tmp_path):
    rng = np.random.default_rng(6)
    stored = kit.store(rng.normal(size=(4, 20)), "BF16"), kit.store(rng.normal(size=(20, 4)), "F32")
    module = modules_of(plain(tmp_path / "a", modules={Q0: stored}))[Q0]
    assert_agrees(module, stored[0].values, stored[1].values, 2.0)


@pytest.mark.parametrize("exponent", [20, 80, 120, 140])
@pytest.mark.parametrize(("dtype_a", "dtype_b"), [("F64", "F64"), ("F64", "F32"), ("BF16", "F64")])
@pytest.mark.parametrize("rank", [3, 40])
def test_ranks_of_opposite_extremes_keep_their_digits(tmp_path, exponent, dtype_a, dtype_b, rank):
    exponent = exponent if dtype_a == dtype_b else 20
    rng = np.random.default_rng(3)
    stretch = 10.0 ** np.linspace(exponent, -exponent, rank)
    a = kit.store(rng.normal(size=(rank, 16)) * stretch[:, None], dtype_a)
    b = kit.store(rng.normal(size=(20, rank)) / stretch, dtype_b)
    module = modules_of(plain(tmp_path / "a", modules={Q0: (a, b)}, r=rank))[Q0]
    assert_agrees(
        module,
        a.values * 2.0 ** -np.round(np.log2(stretch))[:, None],
        b.values * 2.0 ** np.round(np.log2(stretch)),
        8 / rank,
    )


def test_what_is_left_of_float32_factors_that_cancel_is_told(tmp_path):
    tiny = 2.0**-23
    a, b = np.zeros((2, 4)), np.zeros((4, 2))
    a[:, 0] = 1 + tiny, 1
    b[0] = 1 + tiny, -(1 + 2 * tiny)
    stored = kit.store(a * 2**20), kit.store(b * 2**20)
    module = modules_of(plain(tmp_path / "a", modules={Q0: stored}, r=2, lora_alpha=2**20))[Q0]
    assert module.fro_norm == pytest.approx(8192)


@pytest.mark.parametrize("alpha", [1e-300, 1e-200, 1e200, 1e300])
def test_an_extreme_alpha_scales_the_norm(tmp_path, alpha):
    small, large = (
        inspect_adapter(plain(tmp_path / "a", lora_alpha=1)),
        inspect_adapter(plain(tmp_path / "b", lora_alpha=alpha)),
    )
    assert large.total_fro_norm == pytest.approx(alpha * small.total_fro_norm, rel=1e-12)
    assert "N_ZERO_UPDATE" not in large.codes


@pytest.mark.parametrize(("count", "alpha"), [(1, 1.7e308), (40, 1.6e308)])
def test_a_norm_beyond_float64_is_told_and_never_printed(tmp_path, count, alpha):
    modules = {
        f"model.layers.{layer}.self_attn.q_proj": (kit.store(3 * np.eye(4, 16)), kit.store(np.eye(16, 4)))
        for layer in range(count)
    }
    inspection = inspect_adapter(plain(tmp_path / "a", modules=modules, lora_alpha=alpha / (1 if count == 1 else 3)))
    assert (inspection.status, inspection.codes) == ("error", ("E_NONFINITE",))
    assert "lora_alpha" in inspection.message
    json.dumps(inspection.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "broken",
    [
        {
            "use_bdlora": {"nblocks": 2},
            "modules": {Q0: (kit.store(np.full((4, 16), np.nan)), kit.store(np.ones((8, 2))))},
        },
        {"modules": {Q0: (raw("I8", (4, 16), b"\1" * 64), kit.store(np.full((8, 4), np.nan)))}},
        {"r": 7, "modules": {Q0: (kit.store(np.full((4, 16), np.nan)), kit.store(np.ones((8, 4))))}},
        {"use_dora": "yes", "modules": {Q0: (kit.store(np.full((4, 16), np.nan)), kit.store(np.ones((8, 4))))}},
        {"tensors": {f"{P}{Q0}.lora_A.other.weight": kit.store(np.full((4, 16), np.nan))}},
    ],
)
def test_every_tensor_is_searched_for_nan_whatever_else_is_wrong(tmp_path, broken):
    inspection = inspect_adapter(plain(tmp_path / "a", **broken))
    assert "E_NONFINITE" in inspection.codes
    assert "NaN" in inspection.message


def test_a_rank_that_is_not_measured_is_searched_for_nan(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "MAX_MEASURED_RANK", 3)
    a = kit.store(np.where(np.arange(64).reshape(4, 16) == 63, np.nan, 1.0))
    inspection = inspect_adapter(plain(tmp_path / "a", modules={Q0: (a, kit.store(np.ones((16, 4))))}))
    assert {"E_NONFINITE", "A_UNKNOWN_TENSOR"} <= set(inspection.codes)
