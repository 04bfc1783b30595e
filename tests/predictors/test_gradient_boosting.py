import lightgbm
import numpy as np
import pytest

from lora_spec.predictors.gradient_boosting import GradientBoostingVariant

VARIANT = GradientBoostingVariant()
OPTIONS = {"num_trees": (20,), "learning_rate": 0.3, "column_share": 1.0, "min_adapters_per_leaf": 2}


def _data(n: int = 80):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    return x, (2.0 * (x[:, 0] > 0) * (x[:, 1] > 0))[:, None], [str(i % 8) for i in range(n)]


def test_an_interaction_of_two_columns_is_found():
    x, y, sources = _data()
    model = VARIANT.fit(x, y, sources=sources, options=OPTIONS)
    corners = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    found = [VARIANT.logits(model, np.array([a, b, 0.0]))[0] for a, b in corners]
    assert found == pytest.approx([2.0, 0.0, 0.0, 0.0], abs=0.25)


def test_walking_the_exported_trees_equals_lightgbm():
    x, y, sources = _data()
    seen = []
    train = lightgbm.train

    def spy(*args, **kwargs):
        seen.append(train(*args, **kwargs))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lightgbm, "train", spy)
        model = VARIANT.fit(x, y, sources=sources, options=OPTIONS)
    mine = np.array([VARIANT.logits(model, row)[0] for row in x])
    assert mine == pytest.approx(seen[-1].predict(x) + y.mean(), abs=1e-12)


def test_pure_noise_gets_the_fewest_trees():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 6)), rng.normal(size=(60, 1))
    options = {"num_trees": (5, 50, 200), "learning_rate": 0.3}
    model = VARIANT.fit(x, y, sources=[str(i % 12) for i in range(60)], options=options)
    assert model["positions"][0]["num_trees"] == 5
