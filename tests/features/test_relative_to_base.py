"""The update beside the base's weights, against dense arithmetic; names, sizes and orientations."""

import math

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import plain
from safetensors.numpy import save_file

from lora_spec.adapter import inspect_adapter
from lora_spec.errors import AdapterError
from lora_spec.features import extract_features, relative
from lora_spec.features.relative import relative_to_base


def base_folder(folder, weights, config='{"num_hidden_layers": 6}'):
    folder.mkdir()
    if config is not None:
        (folder / "config.json").write_text(config)
    if weights:
        save_file(
            {name: np.ascontiguousarray(w, dtype=np.float32) for name, w in weights.items()},
            folder / "model.safetensors",
        )
    return folder


def standard_weights(seed=0):
    rng = np.random.default_rng(seed)
    return {f"{path}.weight": rng.normal(size=(b.shape[0], a.shape[1])) for path, (a, b) in kit.standard().items()}


def compare(adapter, base):
    return relative_to_base(adapter, inspect_adapter(adapter), base)


def test_every_number_agrees_with_dense_arithmetic(tmp_path):
    weights = standard_weights()
    found = compare(plain(tmp_path / "a"), base_folder(tmp_path / "base", weights))
    assert len(found.modules) == 4
    for module in found.modules:
        a, b = (factor.values for factor in kit.standard()[module.name])
        update, weight = 2 * b @ a, weights[f"{module.name}.weight"]
        assert module.relative_fro == pytest.approx(np.linalg.norm(update) / np.linalg.norm(weight), rel=1e-5)
        wanted = np.linalg.norm(update, 2) / np.linalg.norm(weight, 2)
        assert module.relative_spectral == pytest.approx(wanted, rel=1e-5)
        cosine = np.sum(update * weight) / np.linalg.norm(update) / np.linalg.norm(weight)
        assert module.alignment == pytest.approx(cosine, abs=1e-5)
        left, _, right = np.linalg.svd(update)
        inside = np.linalg.norm(weight @ right[:4].T) ** 2 / np.linalg.norm(weight) ** 2
        assert module.input_overlap == pytest.approx(inside * weight.shape[1] / 4, rel=1e-4)
        inside = np.linalg.norm(left[:, :4].T @ weight) ** 2 / np.linalg.norm(weight) ** 2
        assert module.output_overlap == pytest.approx(inside * weight.shape[0] / 4, rel=1e-4)


def test_the_largest_singular_value_of_a_large_weight_is_near_the_exact_one():
    weight = np.random.default_rng(3).normal(size=(400, 300)).astype(np.float32)
    exact = np.linalg.norm(weight, 2)
    assert 0.98 * exact < relative._spectral_norm(weight) <= exact * (1 + 1e-5)


def test_an_update_along_the_base_has_alignment_one(tmp_path):
    weights = {f"{path}.weight": b.values @ a.values for path, (a, b) in kit.standard().items()}
    found = compare(plain(tmp_path / "a"), base_folder(tmp_path / "base", weights))
    for module in found.modules:
        assert module.alignment == pytest.approx(1, abs=1e-5)
        assert module.relative_fro == pytest.approx(2, rel=1e-5)
        assert module.relative_spectral == pytest.approx(2, rel=1e-3)


def test_relative_numbers_do_not_depend_on_how_the_update_is_factored(tmp_path):
    g = np.random.default_rng(1).normal(size=(4, 4)) + 3 * np.eye(4)
    regauged = {
        path: (kit.store(g @ a.values, "F64"), kit.store(b.values @ np.linalg.inv(g), "F64"))
        for path, (a, b) in kit.standard().items()
    }
    base = base_folder(tmp_path / "base", standard_weights())
    before = compare(plain(tmp_path / "a"), base).columns.values
    after = compare(plain(tmp_path / "b", modules=regauged), base).columns.values
    assert after == pytest.approx(before, rel=1e-4, abs=1e-5)


def test_a_transposed_weight_is_turned(tmp_path):
    a, b = kit.factors(np.random.default_rng(2), 12, 20)
    adapter = plain(tmp_path / "a", modules={"transformer.h.0.attn.c_attn": (a, b)}, target_modules=["c_attn"])
    weights = {"h.0.attn.c_attn.weight": (b.values @ a.values).T}
    found = compare(adapter, base_folder(tmp_path / "base", weights))
    assert found.modules[0].alignment == pytest.approx(1, abs=1e-5)


def test_modules_unknown_to_the_base_are_listed_with_their_share(tmp_path):
    weights = {name: w for name, w in standard_weights().items() if "q_proj" in name}
    found = compare(plain(tmp_path / "a"), base_folder(tmp_path / "base", weights))
    inspection = inspect_adapter(tmp_path / "a")
    missing = sum(m.fro_norm**2 for m in inspection.modules if m.type == "v_proj")
    assert sorted(found.unmatched) == [f"model.layers.{layer}.self_attn.v_proj" for layer in range(2)]
    assert found.unmatched_energy_share == pytest.approx(missing / inspection.total_fro_norm**2)


def test_another_base_shows_by_its_sizes(tmp_path):
    weights = {name: np.ones((5, 7)) for name in standard_weights()}
    found = compare(plain(tmp_path / "a"), base_folder(tmp_path / "base", weights))
    assert len(found.misfits) == 4
    assert found.columns is None


def test_a_config_alone_counts_layers_and_claims_no_norms(tmp_path):
    found = compare(plain(tmp_path / "a"), base_folder(tmp_path / "base", {}))
    assert (found.num_layers, found.modules, found.columns) == (6, (), None)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(AdapterError, match=r"config\.json"):
        compare(plain(tmp_path / "a"), base_folder(tmp_path / "base", {}, config=None))


def test_base_columns_stand_apart_from_checkpoint_only(tmp_path):
    base = base_folder(tmp_path / "base", standard_weights())
    with_base = extract_features(plain(tmp_path / "a"), base=base)
    without = extract_features(tmp_path / "a")
    assert with_base.checkpoint_only == without.checkpoint_only
    assert without.checkpoint_base is None
    assert math.isfinite(with_base.checkpoint_base.values["base_log_relative_fro_early"])
    assert "checkpoint_base" in with_base.to_dict()["columns"]
