"""Draws of whole sources, and differences taken on the same ones."""

import numpy as np
import pytest

from lora_spec.errors import ConfigError
from lora_spec.evaluation.resampling import draw_sources
from lora_spec.evaluation.scores import auroc, bootstrap_interval, equal_source_weights, source_mean, spearman

SOURCES = [str(i // 3) for i in range(30)]


def _law(noise, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=30)
    return truth, truth + noise * rng.normal(size=30)


def test_a_source_is_drawn_whole_or_not_at_all():
    draws = draw_sources(SOURCES, num_draws=50, seed=0)
    for rows in draws.rows:
        counts = np.bincount(rows, minlength=30).reshape(10, 3)
        assert (counts == counts[:, :1]).all()
        assert counts.sum() == 30


def test_a_predictor_differs_from_itself_by_exactly_nothing():
    truth, guess = _law(0.7)
    draws = draw_sources(SOURCES, num_draws=200, seed=0)
    found = draws.resample(spearman, guess, truth).minus(draws.resample(spearman, guess, truth)).interval(0.9)
    assert (found.estimate, found.lower, found.upper) == (0, 0, 0)


def test_a_paired_difference_is_narrower_than_two_intervals_apart():
    truth, guess = _law(0.7)
    draws = draw_sources(SOURCES, num_draws=400, seed=0)
    one, other = (draws.resample(spearman, values, truth) for values in (guess, guess + 0.05 * np.arange(30) / 30))
    apart = [side.interval(0.9) for side in (one, other)]
    paired = one.minus(other).interval(0.9)
    assert paired.upper - paired.lower < 0.3 * sum(side.upper - side.lower for side in apart)


def test_a_better_predictor_is_told_from_a_worse_one_in_the_right_direction():
    truth, good = _law(0.1)
    poor = np.random.default_rng(9).normal(size=30)
    draws = draw_sources(SOURCES, num_draws=400, seed=0)
    found = draws.resample(spearman, good, truth).minus(draws.resample(spearman, poor, truth)).interval(0.9)
    assert found.lower > 0


def test_differences_on_other_draws_are_refused():
    truth, guess = _law(0.7)
    one, other = (draw_sources(SOURCES, num_draws=5, seed=0).resample(spearman, guess, truth) for _ in range(2))
    with pytest.raises(ConfigError, match="same draws"):
        one.minus(other)


def test_draws_with_one_class_are_left_out_and_too_many_of_them_leave_no_interval():
    """One source of n holds the only positives: it is missing from (1 - 1/n)^n of the draws, more than a third."""
    scores, labels = [3.0, 2.0, 1.0, 0.0], [True, False, False, False]
    draws = draw_sources(["a", "b", "c", "d"], num_draws=4000, seed=0)
    found = draws.resample(auroc, scores, labels)
    # A draw of one source alone lacks the negatives too.
    assert np.isnan(found.draws).mean() == pytest.approx(0.75**4 + 0.25**4, abs=0.03)
    assert found.interval(0.9).estimate == 1
    two = draw_sources(["a", "b"], num_draws=4000, seed=0).resample(auroc, [1.0, 0.0], [True, False])
    assert np.isnan(two.draws).mean() == pytest.approx(0.5, abs=0.03)
    lone = draw_sources(["a", "a", "b"], num_draws=400, seed=0).resample(auroc, [1.0, 0.0, 0.0], [True, False, True])
    assert lone.interval(0.9) is not None
    assert draws.resample(auroc, scores, [False] * 4).interval(0.9) is None


def test_half_undefined_is_too_many():
    draws = draw_sources(["a", "b"], num_draws=400, seed=1)
    found = draws.resample(lambda rows: 1.0 if len(set(rows.tolist())) == 2 else None, np.arange(2))
    assert (found.interval(0.9) is None) == (2 * np.isfinite(found.draws).sum() <= 400)


def test_the_interval_of_one_statistic_is_that_of_the_shared_draws():
    truth, guess = _law(0.7)
    alone = bootstrap_interval(spearman, guess, truth, sources=SOURCES, level=0.9, num_draws=300, seed=4)
    shared = draw_sources(SOURCES, num_draws=300, seed=4).resample(spearman, guess, truth).interval(0.9)
    assert alone == shared


def test_a_mean_over_sources_keeps_counting_sources_alike_in_every_draw():
    sources = ["big"] * 9 + ["small"]
    errors = [1.0] * 9 + [0.0]
    weights = equal_source_weights(sources)
    draws = draw_sources(sources, num_draws=200, seed=0)
    found = draws.resample(source_mean, errors, weights)
    assert found.estimate == pytest.approx(0.5)
    assert set(np.round(found.draws, 12)) == {0.0, 0.5, 1.0}


def test_columns_of_another_length_are_refused():
    with pytest.raises(ConfigError, match="pair up"):
        draw_sources(SOURCES, num_draws=2, seed=0).resample(spearman, np.arange(29), np.arange(30))
