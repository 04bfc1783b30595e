import numpy as np
import pytest

from lora_spec.predictors.gam import GamVariant

VARIANT = GamVariant()


def _fit(x, y, **options):
    return VARIANT.fit(x, y, sources=[str(i % 10) for i in range(len(x))], options=options)


def test_a_curve_that_no_line_follows_is_recovered():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(120, 3))
    y = (np.abs(x[:, 0]) * 1.0 + 0.8 * x[:, 0])[:, None]
    model = _fit(x, y, penalties=(0.01,), num_curves=1)
    for value in (-1.5, 0.0, 1.5):
        found = VARIANT.logits(model, np.array([value, 0.0, 0.0]))[0]
        assert found == pytest.approx(abs(value) + 0.8 * value, abs=0.25)


def test_a_heavy_penalty_leaves_a_straight_line():
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, size=(80, 2))
    y = (x[:, 0] ** 2 + x[:, 0])[:, None]
    model = _fit(x, y, penalties=(1e9,), num_curves=1)
    low, middle, high = (VARIANT.logits(model, np.array([v, 0.0]))[0] for v in (-1.0, 0.0, 1.0))
    assert middle == pytest.approx((low + high) / 2, abs=1e-3)


def test_beyond_the_training_range_curves_stay_level():
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, size=(60, 2))
    model = _fit(x, 3 * x[:, :1], num_curves=1)
    edge, far = (VARIANT.logits(model, np.array([value, 0.0]))[0] for value in (x[:, 0].max(), 50.0))
    assert far == pytest.approx(edge)


def test_a_column_that_repeats_another_is_left_out():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 3))
    x[:, 1] = x[:, 0] * 2 + 1
    model = _fit(x, (x[:, 0] + 0.5 * x[:, 2])[:, None], num_curves=3)
    assert sorted(curve["column"] for curve in model["positions"][0]["curves"]) == [0, 2]


def test_a_column_of_few_values_gets_no_curve():
    rng = np.random.default_rng(4)
    x = np.column_stack([np.repeat([0.0, 1.0], 30), rng.normal(size=60)])
    model = _fit(x, x[:, :1] * 2, num_curves=2)
    assert 0 not in [curve["column"] for curve in model["positions"][0]["curves"]]
