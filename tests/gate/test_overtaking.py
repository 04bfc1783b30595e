"""Adapters compared at their best depths on shared step times: cases whose answer is known beforehand."""

import numpy as np
import pytest
from hand_made import cost_model, estimate, geometric

from lora_spec.cost_model import CostModel
from lora_spec.gate.overtaking import best_speedups, count_overtaking, faster_ratio

LEVEL = 0.9


def _compare(estimates, model, *, depths=(0, 1, 2, 3, 4), batch_size=1):
    best = best_speedups(estimates, model, depths=depths, batch_size=batch_size, level=LEVEL, seed=0)
    lengths = {name: found.acceptance_length(depths[-1]).estimate for name, found in estimates.items()}
    return best, count_overtaking(lengths, best, level=LEVEL)


def test_identical_adapters_overtake_neither_way():
    same = estimate(geometric(0.6), below=0.2, above=0.2)
    best, counts = _compare({"one": same, "other": same}, cost_model(noise=0.05))
    ratio = faster_ratio(best["one"], best["other"], level=LEVEL)
    assert ratio.estimate == 1
    assert ratio.lower < 1 < ratio.upper
    assert {found.num_won for found in counts.values()} == {0}


def test_step_times_cancel_between_adapters_at_the_same_depth():
    # Times known to a factor of two leave the ratio of two exactly known lengths exactly known.
    pair = {"slow": estimate((0.5, 0, 0, 0)), "fast": estimate((0.6, 0, 0, 0))}
    best, _ = _compare(pair, cost_model(noise=0.3), depths=(1,))
    ratio = faster_ratio(best["fast"], best["slow"], level=LEVEL)
    assert (ratio.lower, ratio.upper) == pytest.approx((1.6 / 1.5, 1.6 / 1.5))
    assert best["fast"].interval.upper > 1.3 * best["fast"].interval.lower


def test_adapters_that_are_off_tie_exactly_whatever_is_unknown():
    # In a crowd every depth loses: T_1 is 1.7 T_0 and E_1 at most 1.4.
    pair = {"more": estimate((0.3, 0, 0, 0), below=0.1, above=0.1), "less": estimate((0.1, 0, 0, 0))}
    best, counts = _compare(pair, cost_model(noise=0.01), batch_size=16)
    assert [found.num_speculative_tokens for found in best.values()] == [0, 0]
    assert np.all(best["more"].draws == 1)
    assert faster_ratio(best["more"], best["less"], level=LEVEL).upper == 1
    assert {found.num_won + found.num_lost for found in counts.values()} == {0}


def test_a_depth_that_may_be_better_than_off_widens_the_speedup_of_an_adapter_that_is_off():
    # E_1 * T_0 / T_1 = 1.19 / 1.2, and 1.29 / 1.2 at the upper end.
    best, _ = _compare({"near": estimate((0.19, 0, 0, 0), below=0.1, above=0.1)}, cost_model())
    assert best["near"].num_speculative_tokens == 0
    assert (best["near"].interval.estimate, best["near"].interval.lower) == (1, 1)
    assert best["near"].interval.upper == pytest.approx(1.29 / 1.2, rel=2e-3)


def test_a_front_loaded_adapter_overtakes_one_that_accepts_more_and_only_clearly_where_both_are_known():
    # E_4 is 1.8 and 1.9; at K = 1 with T_1 = 1.2 T_0 the first gains 1.5, the second 1.13 there and 1.9 / 1.8 at best.
    for width, is_clear in ((0.02, 1), (0.9, 0)):
        pair = {
            "front": estimate((0.8, 0, 0, 0), below=width, above=width),
            "even": estimate((0.35, 0.25, 0.2, 0.1), below=width, above=width),
        }
        _, counts = _compare(pair, cost_model())
        assert (counts["front"].num_won, counts["even"].num_lost) == (1, 1)
        assert (counts["front"].num_clear_won, counts["even"].num_clear_lost) == (is_clear, is_clear)
        assert (counts["front"].num_lost, counts["even"].num_won) == (0, 0)


def test_equal_acceptance_is_no_inversion():
    pair = {"one": estimate((0.8, 0, 0, 0)), "other": estimate((0.2, 0.2, 0.2, 0.2))}
    _, counts = _compare(pair, cost_model())
    assert {found.num_won for found in counts.values()} == {0}


def test_all_adapters_meet_the_same_draws_of_step_times():
    times = np.array([[[100.0], [120.0]], [[100.0], [150.0]]])
    model = CostModel((0, 1), (1,), np.array([[100.0], [130.0]]), times, {"lora_rank": 8})
    pair = {"one": estimate((0.9, 0, 0, 0)), "other": estimate((0.6, 0, 0, 0))}
    best = best_speedups(pair, model, depths=(1,), batch_size=1, level=LEVEL, seed=0)
    assert set(np.round(best["one"].draws / best["other"].draws, 12)) == {round(1.9 / 1.6, 12)}
