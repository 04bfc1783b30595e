import numpy as np
import pytest

from lora_spec.errors import ConfigError
from lora_spec.evaluation.scores import (
    auroc,
    bootstrap_interval,
    coverage,
    equal_source_weights,
    mean_absolute_error,
    prevalence,
    rate_errors,
    source_mean,
    spearman,
)
from lora_spec.records import Interval


def test_spearman_sees_order_only():
    x = np.arange(10.0)
    assert spearman(x, np.exp(x)) == pytest.approx(1.0)
    assert spearman(x, -(x**3)) == pytest.approx(-1.0)


def test_spearman_of_a_hand_made_permutation():
    """1 - 6 sum d^2 / (n (n^2 - 1)) with d = (0, 1, -1, 0)."""
    assert spearman([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(1 - 6 * 2 / (4 * 15))


def test_spearman_of_a_constant_is_undefined_rather_than_zero():
    assert spearman([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None


def test_mean_absolute_error():
    assert mean_absolute_error([1.0, 2.0], [2.0, 0.0]) == 1.5


def _interval(sources, *, num_draws=400, seed=0):
    rng = np.random.default_rng(1)
    x = np.repeat(rng.normal(size=12), 5)
    y = x + np.repeat(rng.normal(size=12), 5)
    return bootstrap_interval(spearman, x, y, sources=sources, level=0.9, num_draws=num_draws, seed=seed)


def test_resampling_sources_is_wider_than_pretending_independence():
    by_source = _interval([str(i // 5) for i in range(60)])
    by_adapter = _interval([str(i) for i in range(60)])
    assert by_source.estimate == by_adapter.estimate
    assert by_source.upper - by_source.lower > 1.5 * (by_adapter.upper - by_adapter.lower)


def test_the_bootstrap_is_reproducible_by_seed():
    sources = [str(i // 5) for i in range(60)]
    assert _interval(sources, seed=1) == _interval(sources, seed=1)
    assert _interval(sources, seed=1) != _interval(sources, seed=2)


def test_an_undefined_statistic_has_no_interval():
    settings = {"sources": ["a", "b", "c"], "level": 0.9, "num_draws": 20, "seed": 0}
    assert bootstrap_interval(spearman, [1, 1, 1], [1, 2, 3], **settings) is None


def test_unpaired_lists_are_refused():
    with pytest.raises(ConfigError, match="pair"):
        bootstrap_interval(spearman, [1, 2], [1], sources=["a", "b"], level=0.9, num_draws=5, seed=0)


def test_coverage_counts_hits_and_bounds_them_exactly():
    intervals = [Interval(0.0, -1.0, 1.0, 0.9)] * 20
    all_inside = coverage(intervals, [0.0] * 20, level=0.9)
    assert (all_inside.estimate, all_inside.upper) == (1.0, 1.0)
    assert all_inside.lower == pytest.approx(0.05 ** (1 / 20))
    half = coverage(intervals, [0.0, 2.0] * 10, level=0.9)
    assert half.estimate == 0.5
    assert half.lower == pytest.approx(1 - half.upper)


def test_coverage_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="no intervals"):
        coverage([], [], level=0.9)


def test_auroc_of_a_perfect_a_reversed_and_a_constant_score():
    labels = [True, True, False, False, False]
    assert auroc([5, 4, 3, 2, 1], labels) == 1
    assert auroc([1, 2, 3, 4, 5], labels) == 0
    assert auroc([7, 7, 7, 7, 7], labels) == 0.5


def test_auroc_counts_a_tie_as_half():
    """Pairs (2, 1), (2, 2), (3, 1), (3, 2): one tie among four."""
    assert auroc([2, 3, 1, 2], [True, True, False, False]) == (1 + 0.5 + 1 + 1) / 4


def test_auroc_is_scikit_learns_also_with_many_ties():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    for _ in range(50):
        scores, labels = rng.integers(0, 4, size=20), rng.random(20) < 0.4
        if labels.any() and not labels.all():
            assert auroc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_order_scores_do_not_see_monotone_transforms():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 25))
    assert spearman(np.exp(x), y**3) == pytest.approx(spearman(x, y))
    assert auroc(np.exp(x), y > 0) == auroc(x, y > 0)


def test_one_class_alone_cannot_be_separated():
    assert auroc([1, 2], [True, True]) is None
    assert auroc([1, 2], [False, False]) is None


def test_prevalence_is_the_share_of_positives():
    assert prevalence([True, False, False, True]) == 0.5
    assert prevalence([]) is None


def test_rate_errors_average_over_positions_and_sources_count_alike():
    errors = rate_errors([[0.5, 0.2], [0.5, 0.2], [1.0, 1.0]], [[0.4, 0.4], [0.5, 0.2], [0.0, 1.0]])
    assert errors == pytest.approx([0.15, 0.0, 0.5])
    assert source_mean(errors, equal_source_weights(["a", "a", "b"])) == pytest.approx((0.075 + 0.5) / 2)


def test_rates_of_other_depths_are_refused():
    with pytest.raises(ConfigError, match="same depth"):
        rate_errors([[0.5, 0.2]], [[0.5]])
