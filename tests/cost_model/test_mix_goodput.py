"""Depths of many adapters in one engine: what the search for the best of them promises."""

import numpy as np
import pytest

from lora_spec.cost_model.mix_goodput import best_depths, goodputs
from lora_spec.cost_model.table_steps import TableSteps

STEPS = TableSteps(8, np.array([105.0, 120.0, 150.0, 180.0]), 2.0)


def _fleet(num_adapters, seed=0):
    """Return lengths and shares of adapters that accept anything from nothing to nearly all."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0, 0.95, num_adapters)[:, None] ** np.arange(4)
    return np.cumsum(rates, axis=1), rng.dirichlet(np.ones(num_adapters))


def test_adapters_alike_make_what_one_with_all_their_traffic_makes():
    lengths, shares = _fleet(3)
    many = goodputs(np.repeat([3, 1, 0], 4), np.repeat(lengths, 4, axis=0), np.repeat(shares / 4, 4), STEPS)
    assert many == pytest.approx(goodputs(np.array([3, 1, 0]), lengths, shares, STEPS))


@pytest.mark.parametrize("num_adapters", [5, 2000])
def test_no_change_of_one_adapter_gains_however_many_there_are(num_adapters):
    lengths, shares = _fleet(num_adapters)
    best = best_depths(lengths, shares, STEPS)
    most = goodputs(best, lengths, shares, STEPS)
    assert most >= max(goodputs(np.full(num_adapters, depth), lengths, shares, STEPS) for depth in range(4))
    for adapter in range(0, num_adapters, max(1, num_adapters // 50)):
        for depth in range(4):
            changed = best.copy()
            changed[adapter] = depth
            assert goodputs(changed, lengths, shares, STEPS) <= most * (1 + 1e-9)
