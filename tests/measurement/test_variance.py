import numpy as np
import pandas as pd
import pytest

from lora_spec.errors import MeasurementError
from lora_spec.measurement.variance import variance_components

SPREADS = {"adapter": 0.5, "domain": 0.6, "prompt": 0.2, "adapter_x_domain": 0.25, "residual": 0.3}


def _table(spreads=SPREADS, *, adapters: int = 30, domains: int = 8, prompts: int = 10, seed: int = 0) -> pd.DataFrame:
    """Draw a crossed design with known standard deviations."""
    rng = np.random.default_rng(seed)
    shapes = {
        "adapter": (adapters, 1, 1),
        "domain": (1, domains, 1),
        "prompt": (1, domains, prompts),
        "adapter_x_domain": (adapters, domains, 1),
        "residual": (adapters, domains, prompts),
    }
    y = 2 + sum(spreads[name] * rng.standard_normal(shape) for name, shape in shapes.items())
    rows = [
        {"adapter": f"a{a}", "domain": f"d{d}", "prompt_id": f"d{d}-{p}", "acceptance_length": value}
        for (a, d, p), value in np.ndenumerate(y)
    ]
    return pd.DataFrame(rows)


def test_estimates_are_unbiased():
    found = [variance_components(_table(seed=seed, adapters=12))["variances"] for seed in range(60)]
    for name, spread in SPREADS.items():
        values = [one[name] for one in found]
        error = np.std(values) / len(values) ** 0.5
        assert np.mean(values) == pytest.approx(spread**2, abs=3.5 * error)


def test_effects_without_noise_are_found_exactly():
    rng = np.random.default_rng(0)
    adapter = rng.standard_normal(5)
    table = _table(dict.fromkeys(SPREADS, 0.0), adapters=5, domains=1, prompts=4)
    table["acceptance_length"] += table["adapter"].map({f"a{i}": value for i, value in enumerate(adapter)})
    found = variance_components(table)
    assert found["variances"]["adapter"] == pytest.approx(adapter.var(ddof=1))
    assert found["shares"]["adapter"] == pytest.approx(1)
    assert found["num_domains"] == 1


def test_an_effect_that_is_not_there_gets_almost_no_variance():
    found = variance_components(_table({**SPREADS, "adapter": 0.0, "adapter_x_domain": 0.0}))
    assert found["shares"]["adapter"] < 0.01
    assert found["shares"]["adapter_x_domain"] < 0.01


def test_a_prompt_that_one_adapter_has_no_draft_on_is_left_out_for_all():
    table = _table()
    whole = variance_components(table)
    assert whole["num_prompts_left_out"] == 0
    table.loc[table.index[3], "acceptance_length"] = None
    cut = variance_components(table)
    assert (cut["num_prompts_per_domain"], cut["num_prompts_left_out"]) == (9, 8)


def test_one_adapter_has_no_variance():
    table = _table()
    with pytest.raises(MeasurementError, match="two adapters"):
        variance_components(table[table["adapter"] == "a0"])
