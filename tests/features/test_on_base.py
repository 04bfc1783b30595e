"""An update on a base that can be solved by hand: first order against differences, moments against averages."""

import math

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import plain
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_base import INNER, OUT, TOKENS, WIDE, LinearBase, Q, V

from lora_spec.adapter import inspect_adapter
from lora_spec.errors import AdapterError
from lora_spec.features import BaseMarginColumns, BaseMomentColumns, BaseProfileError, extract_features
from lora_spec.features.base_margins import base_margin_columns
from lora_spec.features.base_moments import base_moment_columns
from lora_spec.features.on_base import put_on_base

BASE = LinearBase()
SHAPES = {Q: (INNER, WIDE), V: (OUT, INNER)}


def draw(seed=0, rank=2, size=0.1):
    rng = np.random.default_rng(seed)
    return {n: (rng.normal(size=(rank, i)), size * rng.normal(size=(rank, o)).T) for n, (o, i) in SHAPES.items()}


def write(folder, factors, **config):
    stored = {name: (kit.store(a, "F64"), kit.store(b, "F64")) for name, (a, b) in factors.items()}
    rank = next(iter(factors.values()))[0].shape[0]
    config = {"r": rank, "lora_alpha": rank, **config}
    return plain(folder, modules=stored, target_modules=["q_proj", "v_proj"], **config)


def put(folder, profile=None):
    return put_on_base(folder, inspect_adapter(folder), profile or BASE.profile())


def columns(folder, profile=None):
    profile = profile or BASE.profile()
    updates = put(folder, profile)
    return {**base_moment_columns(updates).values, **base_margin_columns(updates, profile).values}


def test_the_first_order_change_is_the_difference_of_the_models_margins(tmp_path):
    factors = draw()
    d1, d2 = (b @ a for a, b in (factors[Q], factors[V]))
    wanted = (BASE.margins(d1, d2) - BASE.margins(-d1, -d2)) / 2
    found = sum(update.margin_changes for update in put(write(tmp_path / "a", factors)))
    assert found == pytest.approx(wanted, rel=1e-6)
    assert np.abs(wanted).max() > 0.1


def test_shifts_are_averages_over_the_inputs_where_all_directions_are_kept(tmp_path):
    factors = draw(1)
    for update in put(write(tmp_path / "a", factors)):
        a, b = factors[update.name]
        rows, weight = BASE.inputs()[update.name], {Q: BASE.w1, V: BASE.w2}[update.name]
        wanted = np.mean(np.sum((rows @ (b @ a).T) ** 2, axis=1))
        own = np.mean(np.sum((rows @ weight.T) ** 2, axis=1))
        assert update.shift**2 == pytest.approx(wanted, rel=1e-6)
        assert update.relative_shift**2 == pytest.approx(wanted / own, rel=1e-6)
        chance = np.linalg.norm(b @ a) ** 2 * np.mean(np.sum(rows**2, axis=1)) / rows.shape[1]
        assert update.input_gain == pytest.approx(wanted / chance, rel=1e-6)


def test_what_is_not_kept_of_a_moment_counts_as_isotropic(tmp_path):
    class Flat(LinearBase):
        def inputs(self):
            """Return rows whose second moment is isotropic beside its first direction."""
            spread = math.sqrt(TOKENS) * np.eye(TOKENS)
            return {Q: spread[:, :WIDE] * np.array([5, *[2] * (WIDE - 1)]), V: spread[:, :INNER]}

    folder = write(tmp_path / "a", draw(2))
    exact, few = put(folder, Flat().profile()), put(folder, Flat().profile(num_directions=1))
    assert [u.shift for u in few] == pytest.approx([u.shift for u in exact], rel=1e-6)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_no_column_depends_on_how_the_update_is_factored(tmp_path_factory, seed):
    factors, rng = draw(seed), np.random.default_rng(seed)
    g = rng.normal(size=(2, 2)) + 3 * np.eye(2)
    regauged = {name: (g @ a, b @ np.linalg.inv(g)) for name, (a, b) in factors.items()}
    folder = tmp_path_factory.mktemp("gauge")
    before, after = (columns(write(folder / name, f)) for name, f in (("before", factors), ("after", regauged)))
    assert after == pytest.approx(before, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("factor", [2.0, -1.0, 0.25])
def test_first_order_numbers_are_linear_in_the_scale(tmp_path, factor):
    factors = draw(3)
    before = columns(write(tmp_path / "a", factors))
    after = columns(write(tmp_path / "b", factors, lora_alpha=2 * factor))
    assert after["base_margin_mean_change"] == pytest.approx(factor * before["base_margin_mean_change"])
    assert after["base_margin_ratio_p50"] == pytest.approx(factor * before["base_margin_ratio_p50"])
    for name in ("base_margin_log_rms_change", "base_act_log_shift_total", "base_act_log_relative_largest"):
        assert after[name] == pytest.approx(before[name] + math.log(abs(factor)))
    assert after["base_act_input_gain_mean"] == pytest.approx(before["base_act_input_gain_mean"])


def test_a_zero_update_moves_nothing(tmp_path):
    found = columns(write(tmp_path / "a", {name: (a, 0 * b) for name, (a, b) in draw().items()}))
    floored = {name for name in found if "_log_" in name}
    assert {found.pop(name) for name in floored} == {math.log(1e-6)}
    assert found.pop("base_margin_predicted_agreement") == pytest.approx(np.mean(BASE.choices == 0))
    assert set(found.values()) == {0.0}


def test_flips_cost_agreed_drafts_and_gain_those_of_the_second_token(tmp_path):
    factors = draw(4)
    d1, d2 = (b @ a for a, b in (factors[Q], factors[V]))
    size = 3 * np.median(BASE.margins() / np.abs(BASE.margins(d1, d2) - BASE.margins(-d1, -d2)))
    found = columns(write(tmp_path / "a", factors, lora_alpha=2 * size))
    after = BASE.margins() + size * (BASE.margins(d1, d2) - BASE.margins(-d1, -d2)) / 2
    flips = after < 0
    assert 0 < flips.sum() < TOKENS
    assert found["base_margin_flip_share"] == pytest.approx(flips.mean())
    assert found["base_margin_flip_share_agreed"] == pytest.approx(flips[BASE.choices == 0].mean())
    kept = (BASE.choices == 0) & ~flips | (BASE.choices == 1) & flips
    assert found["base_margin_predicted_agreement"] == pytest.approx(kept.mean())


def test_places_and_totals_add_up(tmp_path):
    found, updates = columns(write(tmp_path / "a", draw(5))), put(tmp_path / "a")
    by_name = {update.name: update.shift for update in updates}
    assert found["base_act_log_shift_early_query_key"] == pytest.approx(math.log(by_name[Q]))
    assert found["base_act_log_shift_middle_value"] == pytest.approx(math.log(by_name[V]))
    assert found["base_act_log_shift_late_value"] == pytest.approx(math.log(1e-6))
    assert found["base_act_log_shift_total"] == pytest.approx(math.log(math.hypot(*by_name.values())))


def test_an_effect_beyond_float64_is_told(tmp_path):
    with pytest.raises(AdapterError, match="beyond float64") as caught:
        put(write(tmp_path / "a", draw(size=1.0), lora_alpha=1e308))
    assert caught.value.codes == ("E_NONFINITE",)


@pytest.mark.parametrize("alpha", [1e-200, 1e150])
def test_an_extreme_alpha_moves_sizes_and_leaves_directions(tmp_path, alpha):
    before, after = put(write(tmp_path / "a", draw(6))), put(write(tmp_path / "b", draw(6), lora_alpha=alpha))
    for one, other in zip(before, after, strict=True):
        assert other.shift == pytest.approx(one.shift * alpha / 2)
        assert other.margin_changes == pytest.approx(one.margin_changes * alpha / 2)
        assert other.input_gain == pytest.approx(one.input_gain)


def test_base_columns_stand_apart_from_those_of_the_checkpoint_alone(tmp_path):
    folder = write(tmp_path / "a", draw())
    without, with_profile = extract_features(folder), extract_features(folder, profile=BASE.profile())
    assert with_profile.checkpoint_only == without.checkpoint_only
    assert with_profile.checkpoint_meta == without.checkpoint_meta
    assert without.base_moments is without.base_margins is None
    held = with_profile.to_dict()["columns"]["checkpoint_base"]
    assert set(held) == {*BaseMomentColumns.names, *BaseMarginColumns.names}
    assert "checkpoint_base" not in without.to_dict()["columns"]


@pytest.mark.parametrize(
    ("name", "shape"), [("model.layers.0.self_attn.k_proj", (INNER, WIDE)), (Q, (INNER, WIDE + 1)), (Q, (WIDE, INNER))]
)
def test_a_module_that_the_base_does_not_have_is_refused(tmp_path, name, shape):
    a, b = kit.factors(np.random.default_rng(0), *shape)
    folder = plain(tmp_path / "a", modules={name: (a, b)}, target_modules=None)
    with pytest.raises(BaseProfileError, match="1 of 1 modules do not fit"):
        put(folder)


def test_names_may_lack_the_root_that_the_base_has(tmp_path):
    factors = draw()
    short = {name.removeprefix("model."): value for name, value in factors.items()}
    assert columns(write(tmp_path / "a", short)) == pytest.approx(columns(write(tmp_path / "b", factors)))


def test_a_profile_of_other_weights_is_refused(tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    (base / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(BaseProfileError, match="not those of linear"):
        extract_features(write(tmp_path / "a", draw()), base=base, profile=BASE.profile())
