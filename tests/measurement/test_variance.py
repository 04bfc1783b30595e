import numpy as np
import pandas as pd
import pytest

from lora_spec.errors import MeasurementError
from lora_spec.measurement.variance import variance_components


def _table(*, adapter: float, domain: float, prompt: float, residual: float, seed: int = 0) -> pd.DataFrame:
    """Draw a crossed design with known standard deviations: 30 adapters, 8 domains of 10 prompts."""
    rng = np.random.default_rng(seed)
    adapters, domains = adapter * rng.standard_normal(30), domain * rng.standard_normal(8)
    prompts = prompt * rng.standard_normal((8, 10))
    return pd.DataFrame(
        [
            {
                "adapter": f"a{a}",
                "domain": f"d{d}",
                "prompt_id": f"d{d}-{p}",
                "acceptance_length": 2 + adapters[a] + domains[d] + prompts[d, p] + residual * rng.standard_normal(),
            }
            for a in range(30)
            for d in range(8)
            for p in range(10)
        ]
    )


def test_known_variances_are_found():
    found = variance_components(_table(adapter=0.5, domain=0.6, prompt=0.2, residual=0.3))
    variances = found["variances"]
    assert variances["residual"] == pytest.approx(0.09, rel=0.1)
    assert variances["prompt_id"] == pytest.approx(0.04, rel=0.5)
    assert variances["adapter"] == pytest.approx(0.25, rel=0.5)
    assert 0.1 < variances["domain"] < 1.2
    assert variances["adapter_x_domain"] < 0.01
    assert sum(found["shares"].values()) == pytest.approx(1)


def test_an_effect_that_is_not_there_gets_no_variance():
    found = variance_components(_table(adapter=0.0, domain=0.6, prompt=0.2, residual=0.3))
    assert found["shares"]["adapter"] < 0.02
    assert found["num_levels"] == {"adapter": 30, "domain": 8, "prompt_id": 80}


def test_one_adapter_has_no_variance():
    table = _table(adapter=0.5, domain=0.6, prompt=0.2, residual=0.3)
    with pytest.raises(MeasurementError, match="two adapters"):
        variance_components(table[table["adapter"] == "a0"])
