import numpy as np
import pytest

from lora_spec.predictors import acceptance_algebra as algebra
from lora_spec.records import AcceptanceCounts


def test_equal_conditional_acceptance_gives_the_geometric_series():
    r, depth = 0.7, 4
    rates = algebra.acceptance_rates(np.full(depth, algebra.logit(np.float64(r))))
    assert rates == pytest.approx(r ** np.arange(1, depth + 1))
    assert algebra.acceptance_lengths(rates)[-1] == pytest.approx((1 - r ** (depth + 1)) / (1 - r))


def test_rates_fall_with_depth_whatever_the_logits():
    logits = np.random.default_rng(0).normal(0, 5, (200, 6))
    assert np.all(np.diff(algebra.acceptance_rates(logits), axis=-1) <= 0)


def test_infinite_logits_reach_the_ends_of_the_range():
    ends = np.array([np.inf, -np.inf])
    assert algebra.sigmoid(ends).tolist() == [1.0, 0.0]
    assert algebra.lengths_from_logits(np.full(3, np.inf)).tolist() == [2.0, 3.0, 4.0]
    assert algebra.lengths_from_logits(np.full(3, -np.inf)).tolist() == [1.0, 1.0, 1.0]


def test_rates_and_lengths_stay_inside_their_range_whatever_a_model_says():
    for logits in (np.full(6, 1e9), np.full(6, -1e9), np.full(6, np.inf), np.full(6, -np.inf)):
        rates = algebra.acceptance_rates(logits)
        assert np.all(np.isfinite(algebra.logit(rates)))
        assert np.all(np.isfinite(algebra.length_logits(algebra.acceptance_lengths(rates))))


def test_length_logits_are_undone():
    lengths = np.array([1.5, 1.9, 2.2])
    assert algebra.lengths_from_logits(algebra.length_logits(lengths)) == pytest.approx(lengths)


def test_conditional_logits_recover_r_and_stay_finite_at_zero():
    counts = AcceptanceCounts(10_000, 30_000, 6_000, (5_000, 1_000, 0))
    values = algebra.sigmoid(algebra.conditional_logits(counts, min_trials=1))
    assert values[:2] == pytest.approx([0.5, 0.2], abs=1e-3)
    assert 0 < values[2] < 1e-3


def test_a_position_never_reached_is_unknown_rather_than_zero():
    counts = AcceptanceCounts(1_000, 3_000, 0, (0, 0, 0))
    values = algebra.conditional_logits(counts, min_trials=1)
    assert np.isfinite(values).tolist() == [True, False, False]
