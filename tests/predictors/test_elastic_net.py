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


@pytest.mark.parametrize("min_sources", [8, 99], ids=["penalty chosen", "penalty fixed"])
def test_a_linear_law_is_recovered(min_sources):
    x, y, sources = _data()
    options = {"penalty_fraction": 1e-4, "min_sources_for_inner_cv": min_sources}
    fitted = VARIANT.fit(x, y, sources=sources, options=options)
    assert VARIANT.logits(fitted, np.array([1.0, 1.0, 0.0, 0.0])) == pytest.approx([3.0, -1.5], abs=0.05)


def test_the_full_penalty_leaves_the_mean_and_uses_no_column():
    x, y, sources = _data()
    fitted = VARIANT.fit(x, y, sources=sources, options={"penalty_fraction": 1.0, "min_sources_for_inner_cv": 99})
    assert not VARIANT.used_columns(fitted).any()
    assert VARIANT.logits(fitted, x[0]) == pytest.approx(y.mean(axis=0))


def test_predictions_do_not_depend_on_the_unit_of_a_column():
    x, y, sources = _data()
    scaled = x * np.array([1e3, 1e-3, 1.0, 5.0])
    options = {"min_sources_for_inner_cv": 99}
    plain = VARIANT.fit(x, y, sources=sources, options=options)
    other = VARIANT.fit(scaled, y, sources=sources, options=options)
    assert VARIANT.logits(other, scaled[3]) == pytest.approx(VARIANT.logits(plain, x[3]))


def test_adapters_that_say_nothing_about_a_position_do_not_touch_it():
    x, y, sources = _data()
    y[:20, 1] = np.nan
    options = {"min_sources_for_inner_cv": 99}
    fitted = VARIANT.fit(x, y, sources=sources, options=options)
    alone = VARIANT.fit(x[20:], y[20:], sources=sources[20:], options=options)
    assert fitted["positions"][1] == alone["positions"][1]
    assert fitted["positions"][0]["num_adapters"] == len(x)


def test_a_position_nobody_reaches_and_an_unknown_option_are_refused():
    x, y, sources = _data()
    with pytest.raises(PredictorError, match="penalty_fractoin"):
        VARIANT.fit(x, y, sources=sources, options={"penalty_fractoin": 0.1})
    y[:, 1] = np.nan
    with pytest.raises(PredictorError, match="position 2"):
        VARIANT.fit(x, y, sources=sources, options={})
