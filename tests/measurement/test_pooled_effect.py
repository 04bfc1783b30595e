"""Statistics of effects, against cases whose answer is known in closed form."""

from statistics import NormalDist

import numpy as np
import pytest

from lora_spec.errors import MeasurementError
from lora_spec.measurement.pooled_effect import PairedCounts, PromptDraws, holm, length_difference, pooled_loss

IDS = tuple(f"p{i}" for i in range(200))


def _counts(name: str, base: float, adapted: float, *, ids=IDS, drafts: int = 20, spread: float = 0.0, seed: int = 0):
    """Return ``base`` and ``adapted`` accepted tokens per draft on every prompt, with a spread of the latter."""
    rng = np.random.default_rng(seed)
    noise = spread * rng.standard_normal(len(ids))
    rows = [[drafts, drafts * base, drafts, drafts * (adapted + e)] for e in noise]
    return PairedCounts(name, ids, np.array(rows, float))


def test_without_spread_the_interval_is_the_point():
    effect = length_difference(_counts("a", 1.2, 0.9), PromptDraws(500, 0), 0.9)
    assert (effect.interval.lower, effect.interval.estimate, effect.interval.upper) == pytest.approx((-0.3,) * 3)
    assert effect.p_value == pytest.approx(2 / 501)
    assert effect.min_detectable == pytest.approx(0, abs=1e-9)


def test_an_exactly_null_effect_has_p_one_and_a_zero_interval():
    effect = pooled_loss([_counts("zero", 1.1, 1.1)], PromptDraws(500, 0), 0.9)
    assert (effect.interval.lower, effect.interval.upper, effect.p_value) == (0, 0, 1)


def test_pooled_loss_is_a_ratio_of_sums_and_not_a_mean_of_ratios():
    strong = _counts("strong", 1.0, 0.5, drafts=10)
    weak = _counts("weak", 1.0, 1.0, drafts=30)
    assert pooled_loss([strong, weak], PromptDraws(50, 0), 0.9).interval.estimate == pytest.approx(0.5 * 10 / 40)


def test_interval_and_detectable_effect_follow_the_standard_error():
    spread, n = 0.4, len(IDS)
    effect = length_difference(_counts("a", 1.0, 0.9, spread=spread, seed=3), PromptDraws(20_000, 1), 0.9)
    error, normal = spread / n**0.5, NormalDist()
    assert effect.interval.upper - effect.interval.lower == pytest.approx(2 * normal.inv_cdf(0.95) * error, rel=0.1)
    assert effect.min_detectable == pytest.approx((normal.inv_cdf(0.95) + normal.inv_cdf(0.8)) * error, rel=0.1)


def test_intervals_cover_the_truth_as_often_as_they_say():
    covered = 0
    for seed in range(200):
        counts = _counts("a", 1.0, 0.9, ids=IDS[:40], spread=0.5, seed=seed)
        interval = length_difference(counts, PromptDraws(400, seed), 0.9).interval
        covered += interval.lower <= -0.1 <= interval.upper
    assert 0.82 <= covered / 200 <= 0.97


def test_adapters_on_the_same_prompts_get_the_same_draw_of_them():
    draws = PromptDraws(100, 0)
    base = _counts("a", 1.0, 0.5, spread=0.3, seed=1)
    mirrored = PairedCounts("b", IDS, np.column_stack([base.table[:, :3], 20 * 1.0 - base.table[:, 3]]))
    sums = draws.sums(base)[:, 3] + draws.sums(mirrored)[:, 3]
    assert np.ptp(sums) == pytest.approx(0, abs=1e-8)
    other = PairedCounts("c", tuple(f"q{i}" for i in range(200)), mirrored.table)
    assert np.ptp(draws.sums(base)[:, 3] + draws.sums(other)[:, 3]) > 1


def test_holm_against_the_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_a_base_that_accepts_nothing_is_named():
    with pytest.raises(MeasurementError, match="dull"):
        pooled_loss([_counts("dull", 0.0, 0.0)], PromptDraws(50, 0), 0.9)
