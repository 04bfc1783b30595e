"""Norms of whole folders: every stored type, layout and size must give what the dense product gives."""

import math

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import Q0, plain

from lora_spec.adapter import blocks as blocks_module
from lora_spec.adapter import inspect_adapter, iterate_factors


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
