"""The update beside the base's weights, against dense arithmetic; names, sizes and orientations."""

import math

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import Q0, plain, values
from hypothesis import given, settings
from hypothesis import strategies as st
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


# ---- numbers of the product, never of the factors


def dense_numbers(update, weight, rank=4):
    left, values, right = np.linalg.svd(update)
    kept = int((values > 1e-10 * values[0])[:rank].sum())  # what lies beyond the rank is rounding of the dense product
    squared = np.linalg.norm(weight) ** 2
    return {
        "relative_fro": np.linalg.norm(update) / np.sqrt(squared),
        "relative_spectral": values[0] / np.linalg.norm(weight, 2),
        "alignment": np.sum(update * weight) / np.linalg.norm(update) / np.sqrt(squared),
        "input_overlap": np.linalg.norm(weight @ right[:kept].T) ** 2 / squared * weight.shape[1] / kept,
        "output_overlap": np.linalg.norm(left[:, :kept].T @ weight) ** 2 / squared * weight.shape[0] / kept,
    }


@pytest.fixture(scope="module")
def square(tmp_path_factory):
    """A base with one square weight, and the weight as it is stored."""
    weight = np.random.default_rng(5).normal(size=(16, 16)).astype(np.float32)
    return base_folder(tmp_path_factory.mktemp("square") / "base", {f"{Q0}.weight": weight}), weight.astype(float)


def numbers_of(folder, square, a, b, dtype="F64", **config):
    stored = {Q0: (kit.store(a, dtype), kit.store(b, dtype))}
    found = compare(plain(folder, modules=stored, r=a.shape[0], **config), square[0])
    module = found.modules[0]
    return {name: getattr(module, name) for name in dense_numbers(np.eye(2), np.eye(2))}, found.columns.values


def assert_as_dense(numbers, update, weight, rel=1e-4):
    wanted = dense_numbers(update, weight)
    assert numbers == pytest.approx(wanted, rel=rel, abs=rel)
    assert -1 <= numbers["alignment"] <= 1


@given(seed=st.integers(0, 2**32 - 1), log_condition=st.floats(0, 10), lopsided=st.sampled_from([0, -50, 50, 150]))
@settings(max_examples=60, deadline=None)
def test_no_number_depends_on_how_badly_the_update_is_factored(tmp_path_factory, square, seed, log_condition, lopsided):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(4, 16)), rng.normal(size=(16, 4))
    left, right = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    stretch = np.logspace(0, -log_condition, 4)
    g, inverse = (left * stretch) @ right, (right.T / stretch) @ left.T
    numbers, _ = numbers_of(tmp_path_factory.mktemp("a"), square, g @ a * 10.0**lopsided, b @ inverse * 10.0**-lopsided)
    assert_as_dense(numbers, 2 * (b @ inverse) @ (g @ a), square[1], rel=1e-4)


@pytest.mark.parametrize("kind", ["columns of B zero", "rows of A repeated", "rows of A zero", "columns of B repeated"])
def test_overlaps_are_those_of_the_update_not_of_its_factors(tmp_path, square, kind):
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(4, 16)), rng.normal(size=(16, 4))
    if kind.endswith("zero"):
        (b.T if "B" in kind else a)[2:] = 0
    else:
        half = b.T if "B" in kind else a
        half[2:] = half[:2]
    numbers, _ = numbers_of(tmp_path / "a", square, a, b)
    assert_as_dense(numbers, 2 * b @ a, square[1], rel=1e-6)


def test_what_survives_a_cancellation_has_the_alignment_of_the_dense_product(tmp_path, square):
    tiny = 2.0**-23
    a, b = np.zeros((2, 16)), np.zeros((16, 2))
    a[:, :3] = np.array([[1 + tiny], [1]]) * np.array([1, 2, 3])
    b[:4] = np.array([[1 + tiny, -(1 + 2 * tiny)]])
    numbers, _ = numbers_of(tmp_path / "a", square, a, b)
    assert_as_dense({**numbers, "relative_fro": 0, "relative_spectral": 0}, b @ a * 2**60, square[1] * 2.0**90)


@pytest.mark.parametrize("alpha", [1e-300, 1e-200, 1e200, 1e300, -8.0])
def test_an_extreme_alpha_changes_sizes_only(tmp_path, square, alpha):
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(4, 16)), rng.normal(size=(16, 4))
    plain_numbers, _ = numbers_of(tmp_path / "a", square, a, b, lora_alpha=8)
    numbers, columns = numbers_of(tmp_path / "b", square, a, b, lora_alpha=alpha)
    for name in ("alignment", "input_overlap", "output_overlap"):
        sign = -1 if alpha < 0 and name == "alignment" else 1
        assert numbers[name] == pytest.approx(sign * plain_numbers[name], rel=1e-9)
    assert numbers["relative_fro"] == pytest.approx(abs(alpha) / 8 * plain_numbers["relative_fro"], rel=1e-9)
    assert columns["base_alignment_mean"] == pytest.approx(numbers["alignment"])


@pytest.mark.parametrize("size", [1e-35, 1e-20, 1e20, 1e35])
def test_a_base_of_extreme_size_is_compared(tmp_path, square, size):
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(4, 16)), rng.normal(size=(16, 4))
    weight = (square[1] * size).astype(np.float32)
    base = base_folder(tmp_path / "base", {f"{Q0}.weight": weight})
    numbers, _ = numbers_of(tmp_path / "a", (base, None), a, b)
    wanted = dense_numbers(2 * b @ a, weight.astype(float))
    assert numbers == pytest.approx(wanted, rel=1e-5)


def test_a_zero_update_has_no_direction(tmp_path, square):
    numbers, columns = numbers_of(tmp_path / "a", square, np.ones((4, 16)), np.zeros((16, 4)))
    assert set(numbers.values()) == {0.0}
    assert columns["base_alignment_mean"] == 0


def test_a_ratio_beyond_float64_is_told(tmp_path):
    base = base_folder(tmp_path / "base", {f"{Q0}.weight": np.full((16, 16), 1e-30)})
    with pytest.raises(AdapterError, match="beyond float64"):
        numbers_of(tmp_path / "a", (base, None), np.ones((4, 16)), np.ones((16, 4)), lora_alpha=1e300)


@pytest.mark.parametrize(("size", "is_told"), [(1e308, True), (1e150, False), (1e-300, False)])
def test_a_float64_base_of_any_size_is_compared_or_told(tmp_path, size, is_told):
    weight = np.random.default_rng(0).uniform(0.5, 1, (16, 16)) * size
    base = base_folder(tmp_path / "base", {})
    save_file({f"{Q0}.weight": weight}, base / "model.safetensors")
    a, b = np.random.default_rng(1).normal(size=(4, 16)), np.random.default_rng(2).normal(size=(16, 4))
    if is_told:
        with pytest.raises(AdapterError, match="beyond float64"):
            numbers_of(tmp_path / "a", (base, None), a, b)
    else:
        numbers, columns = numbers_of(tmp_path / "a", (base, None), a, b)
        scaled = dense_numbers(2 * b @ a, weight / size)
        assert numbers["alignment"] == pytest.approx(scaled["alignment"])
        assert numbers["relative_fro"] == pytest.approx(scaled["relative_fro"] / size)
        assert math.isfinite(columns["base_log_relative_fro"])


# ---- which way round a weight lies


def fits(tmp_path, name, stored_shape, *, config=None, **changes):
    modules = {name: kit.factors(np.random.default_rng(0), 32, 16)}  # 16 in, 32 out
    base = base_folder(tmp_path / "base", {f"{name}.weight": np.ones(stored_shape)}, config or "{}")
    return bool(compare(plain(tmp_path / "a", modules=modules, target_modules=None, **changes), base).modules)


def test_a_linear_whose_in_and_out_are_swapped_is_no_fit(tmp_path):
    assert not fits(tmp_path, "model.layers.0.mlp.up_proj", (16, 32))


@pytest.mark.parametrize(
    ("name", "config", "changes", "is_fit"),
    [
        ("transformer.h.0.mlp.c_fc", '{"model_type": "gpt2"}', {}, True),
        ("transformer.h.0.mlp.c_fc", "{}", {}, True),
        ("model.layers.0.mlp.c_fc", '{"model_type": "starcoder2"}', {}, False),
        ("model.layers.0.mlp.up_proj", "{}", {"fan_in_fan_out": True}, True),
    ],
)
def test_only_conv1d_and_fan_in_fan_out_may_be_transposed(tmp_path, name, config, changes, is_fit):
    assert fits(tmp_path, name, (16, 32), config=config, **changes) == is_fit


def test_a_convolution_is_compared_over_its_flattened_kernel(tmp_path):
    a, b = values(4, 3, 2, 2), values(8, 4, 1, 1)
    weight = (b.values.reshape(8, 4) @ a.values.reshape(4, 12)).reshape(8, 3, 2, 2)
    base = base_folder(tmp_path / "base", {"vision.conv.weight": weight})
    found = compare(plain(tmp_path / "a", modules={"vision.conv": (a, b)}, target_modules=None), base)
    assert found.modules[0].alignment == pytest.approx(1, abs=1e-6)


# ---- bases that cannot be read


def lfs(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda f: lfs(f / "model.safetensors"), "git-lfs pointer"),
        (lambda f: lfs(f / "config.json"), "git-lfs pointer"),
        (lambda f: (f / "model.safetensors").write_bytes(b"GGUF" + bytes(99)), "GGUF"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\x80\x02}" + bytes(99)), "pickle"),
        (lambda f: (f / "config.json").write_text("[" * 100_000), "config.json"),
        (lambda f: [path.unlink() for path in f.iterdir()] and (f / "pytorch_model.bin").touch(), "pickle"),
    ],
)
def test_a_broken_base_is_named_for_what_it_is(tmp_path, spoil, told):
    base = base_folder(tmp_path / "base", standard_weights())
    spoil(base)
    with pytest.raises(AdapterError, match=told) as caught:
        compare(plain(tmp_path / "a"), base)
    assert caught.value.codes
    assert "base model" in str(caught.value)


def test_a_base_with_nan_is_told(tmp_path):
    weights = {name: weight * np.nan for name, weight in standard_weights().items()}
    with pytest.raises(AdapterError, match="NaN"):
        compare(plain(tmp_path / "a"), base_folder(tmp_path / "base", weights))


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_base_that_is_no_folder_is_told(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(AdapterError, match="folder"):
        compare(plain(tmp_path / "a"), tmp_path / name)
