import numpy as np
import pytest

from lora_spec.errors import PredictorError
from lora_spec.predictors.elastic_net import ElasticNetVariant

VARIANT = ElasticNetVariant()


def _data(n: int = 60, columns: int = 4) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, columns))
    y = np.stack([1 + 2 * x[:, 0], -1 - 0.5 * x[:, 1]], axis=1)
    return x, y, [str(i % 12) for i in range(n)]


@pytest.mark.parametrize("penalties", [(1e-4, 1e-2, 1.0, 10.0), (1e-4,)], ids=["penalty chosen", "penalty fixed"])
def test_a_linear_law_is_recovered(penalties):
    x, y, sources = _data()
    options = {"penalties": penalties, "l1_ratios": (0.5,)}
    fitted = VARIANT.fit(x, y, sources=sources, options=options)
    assert VARIANT.logits(fitted, np.array([1.0, 1.0, 0.0, 0.0])) == pytest.approx([3.0, -1.5], abs=0.05)


def test_a_heavy_penalty_leaves_the_mean_and_uses_no_column():
    x, y, sources = _data()
    fitted = VARIANT.fit(x, y, sources=sources, options={"penalties": (10.0,), "l1_ratios": (0.9,)})
    assert not VARIANT.used_columns(fitted).any()
    assert VARIANT.logits(fitted, x[0]) == pytest.approx(y.mean(axis=0))


def test_predictions_do_not_depend_on_the_unit_of_a_column():
    x, y, sources = _data()
    scaled = x * np.array([1e3, 1e-3, 1.0, 5.0])
    options = {"penalties": (0.01,), "l1_ratios": (0.5,)}
    plain = VARIANT.fit(x, y, sources=sources, options=options)
    other = VARIANT.fit(scaled, y, sources=sources, options=options)
    assert VARIANT.logits(other, scaled[3]) == pytest.approx(VARIANT.logits(plain, x[3]))


def test_adapters_that_say_nothing_about_a_position_do_not_touch_it():
    x, y, sources = _data()
    y[:20, 1] = np.nan
    options = {"penalties": (0.01,), "l1_ratios": (0.5,)}
    fitted = VARIANT.fit(x, y, sources=sources, options=options)
    alone = VARIANT.fit(x[20:], y[20:], sources=sources[20:], options=options)
    assert fitted["positions"][1] == alone["positions"][1]
    assert fitted["positions"][0]["num_adapters"] == len(x)


def test_a_position_nobody_reaches_and_an_unknown_option_are_refused():
    x, y, sources = _data()
    with pytest.raises(PredictorError, match="penaltis"):
        VARIANT.fit(x, y, sources=sources, options={"penaltis": (0.1,)})
    y[:, 1] = np.nan
    with pytest.raises(PredictorError, match="position 2"):
        VARIANT.fit(x, y, sources=sources, options={})


def test_pure_noise_gets_the_strongest_penalty_when_sources_are_held_out():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(40, 20)), rng.normal(size=(40, 1))
    options = {"penalties": (1e-3, 10.0), "l1_ratios": (0.5,)}
    fitted = VARIANT.fit(x, y, sources=[str(i % 8) for i in range(40)], options=options)
    assert fitted["positions"][0]["penalty"] == 10.0


def test_too_few_sources_take_the_strongest_penalty_without_a_search():
    x, y, _ = _data(n=9)
    fitted = VARIANT.fit(x, y, sources=["a", "b", "c"] * 3, options={"penalties": (1e-3, 0.5), "l1_ratios": (0.5,)})
    assert [position["penalty"] for position in fitted["positions"]] == [0.5, 0.5]
