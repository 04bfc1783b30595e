import numpy as np
import pytest

from lora_spec.predictors.conformal import jackknife_plus_bounds, min_sources, source_weights, upper_quantile


def test_sources_weigh_alike_and_one_share_is_kept_for_the_unseen():
    weights = source_weights(["a", "a", "a", "b"])
    assert weights == pytest.approx([1 / 9, 1 / 9, 1 / 9, 1 / 3])


def test_one_adapter_per_source_gives_the_ordinary_order_statistic():
    n, level = 19, 0.9
    values = np.random.default_rng(1).permutation(n).astype(float)
    found = upper_quantile(values, source_weights([str(i) for i in range(n)]), level)
    assert found == np.sort(values)[int(np.ceil(level * (n + 1))) - 1]


def test_too_few_sources_give_an_infinite_interval():
    for n, is_finite in ((8, False), (9, True)):
        zeros = np.zeros((n, 1))
        lower, upper = jackknife_plus_bounds(zeros, zeros + 1, source_weights([str(i) for i in range(n)]), 0.9)
        assert np.isfinite(upper).all() == np.isfinite(lower).all() == is_finite


@pytest.mark.parametrize(("level", "expected"), [(0.5, 1), (0.8, 4), (0.9, 9), (0.95, 19)])
def test_min_sources_is_where_the_bounds_become_finite(level, expected):
    assert min_sources(level) == expected
    weights = source_weights([str(i) for i in range(expected)])
    assert np.isfinite(upper_quantile(np.zeros(expected), weights, level))


def test_many_adapters_of_one_source_do_not_buy_a_finite_interval():
    weights = source_weights(["a"] * 100)
    assert upper_quantile(np.zeros(100), weights, 0.9) == np.inf


def test_bounds_mirror_when_the_world_is_mirrored():
    rng = np.random.default_rng(2)
    predictions, residuals = rng.normal(size=(30, 3)), rng.exponential(size=(30, 3))
    weights = source_weights([str(i % 15) for i in range(30)])
    lower, upper = jackknife_plus_bounds(predictions, residuals, weights, 0.8)
    mirrored_lower, mirrored_upper = jackknife_plus_bounds(-predictions, residuals, weights, 0.8)
    assert mirrored_lower == pytest.approx(-upper)
    assert mirrored_upper == pytest.approx(-lower)


def test_coverage_on_new_sources_reaches_the_level():
    """Adapters share a source effect; a new adapter of a new source is covered as often as promised."""
    rng, level, num_sources, per_source, trials = np.random.default_rng(3), 0.8, 12, 4, 600
    sources = [str(i) for i in range(num_sources) for _ in range(per_source)]
    hits = 0
    for _ in range(trials):
        effects = rng.normal(size=num_sources + 1)
        values = np.repeat(effects[:-1], per_source) + 0.3 * rng.normal(size=num_sources * per_source)
        names = np.array(sources)
        held_out = np.array([values[names != source].mean() for source in sources])[:, None]
        lower, upper = jackknife_plus_bounds(
            held_out, np.abs(values[:, None] - held_out), source_weights(sources), level
        )
        hits += bool(lower[0] <= effects[-1] + 0.3 * rng.normal() <= upper[0])
    assert hits / trials >= level - 3 * np.sqrt(level * (1 - level) / trials)
