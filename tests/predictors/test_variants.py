"""What every registered predictor variant must do, whatever it is inside."""

import json
import subprocess
import sys

import numpy as np
import pytest

from lora_spec.errors import PredictorError
from lora_spec.predictors.registry import VARIANTS, variant_of

NAMES = sorted(VARIANTS)


def _data(n: int = 60, num_columns: int = 5, seed: int = 0):
    """Return rows whose first position rises with column 0 and whose second falls with column 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, num_columns))
    y = np.stack([1.5 * x[:, 0], -1 - x[:, 1]], axis=1) + 0.05 * rng.normal(size=(n, 2))
    return x, y, [str(i % 12) for i in range(n)]


@pytest.fixture(scope="module", params=NAMES)
def fitted(request):
    variant = variant_of(request.param)
    x, y, sources = _data()
    return variant, variant.fit(x, y, sources=sources, options={}), x, y


def test_a_clear_law_orders_adapters_not_seen(fitted):
    variant, model, _, _ = fitted
    x, y, _ = _data(seed=1)
    found = np.array([variant.logits(model, row) for row in x])
    assert found.shape == y.shape
    for k in range(2):
        ranks = [np.argsort(np.argsort(values)) for values in (found[:, k], y[:, k])]
        assert np.corrcoef(ranks)[0, 1] > 0.8


def test_a_model_is_json_and_says_the_same_when_read_back(fitted):
    variant, model, x, _ = fitted
    again = json.loads(json.dumps(model, allow_nan=False))
    assert variant.logits(again, x[3]) == pytest.approx(variant.logits(model, x[3]), abs=0)


def test_the_columns_that_matter_are_told_and_others_do_not_matter(fitted):
    variant, model, x, _ = fitted
    used = variant.used_columns(model)
    assert used.shape == (x.shape[1],)
    assert used[0]
    assert used[1]
    changed = np.where(used, x[3], 99.0)
    assert variant.logits(model, changed) == pytest.approx(variant.logits(model, x[3]), abs=0)


def test_stacked_models_say_what_each_says_alone(fitted):
    variant, model, x, y = fitted
    others = [variant.fit(x[i:], y[i:], sources=[str(j % 6) for j in range(len(x) - i)], options={}) for i in (12, 24)]
    flat = variant.fit(x, np.full_like(y, -0.7), sources=[str(j % 6) for j in range(len(x))], options={})
    models = [model, *others, flat]
    found = variant.stacked(models)(x[3])
    assert found == pytest.approx(np.array([variant.logits(one, x[3]) for one in models]), abs=1e-12)
    assert found.shape == (4, 2)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows_give_the_same_model(name):
    x, y, sources = _data(n=36)
    first, second = (variant_of(name).fit(x, y, sources=sources, options={}) for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_say_nothing_about_a_position_do_not_touch_it(name):
    x, y, sources = _data()
    y[:20, 1] = np.nan
    model = variant_of(name).fit(x, y, sources=sources, options={})
    alone = variant_of(name).fit(x[20:], y[20:], sources=sources[20:], options={})
    assert variant_of(name).logits(model, x[0])[1] == pytest.approx(variant_of(name).logits(alone, x[0])[1])
    assert [p["num_adapters"] for p in model["positions"]] == [60, 40]


@pytest.mark.parametrize("name", NAMES)
def test_a_response_that_never_changes_is_returned_and_no_column_used(name):
    x, y, sources = _data()
    model = variant_of(name).fit(x, np.full_like(y, -0.7), sources=sources, options={})
    assert variant_of(name).logits(model, x[0]) == pytest.approx([-0.7, -0.7])
    assert not variant_of(name).used_columns(model).any()


@pytest.mark.parametrize("name", NAMES)
def test_three_adapters_of_three_sources_give_a_model(name):
    x, y, _ = _data(n=3)
    model = variant_of(name).fit(x, y, sources=["a", "b", "c"], options={})
    assert np.isfinite(variant_of(name).logits(model, x[0])).all()


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_and_a_position_nobody_reaches_are_refused(name):
    x, y, sources = _data()
    with pytest.raises(PredictorError, match="tree_count"):
        variant_of(name).fit(x, y, sources=sources, options={"tree_count": 3})
    y[:, 1] = np.nan
    with pytest.raises(PredictorError, match="position 2"):
        variant_of(name).fit(x, y, sources=sources, options={})


@pytest.mark.parametrize("name", NAMES)
def test_predicting_needs_numpy_alone(name, tmp_path):
    x, y, sources = _data(n=36)
    (tmp_path / "model.json").write_text(json.dumps(variant_of(name).fit(x, y, sources=sources, options={})))
    blocked = ["sklearn", "scipy", "lightgbm", "statsmodels", "pandas"]
    code = (
        "import json, sys\n"
        f"for name in {blocked!r}: sys.modules[name] = None\n"
        "import numpy as np\n"
        "from lora_spec.predictors.registry import variant_of\n"
        f"model = json.load(open({str(tmp_path / 'model.json')!r}))\n"
        f"print(variant_of({name!r}).logits(model, np.zeros({x.shape[1]})).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert len(json.loads(done.stdout)) == 2
