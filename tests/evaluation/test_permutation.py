"""The permutation test against exact enumeration and against its own null."""

from itertools import permutations

import numpy as np
import pytest

from lora_spec.errors import ConfigError
from lora_spec.evaluation.permutation import permutation_p_value
from lora_spec.evaluation.scores import spearman


def _p(predicted, measured, sources, *, num=4000, seed=0):
    return permutation_p_value(predicted, measured, sources=sources, num_permutations=num, seed=seed)


def _singles(n):
    return [f"s{i}" for i in range(n)]


def test_an_order_reproduced_exactly_has_the_smallest_p_that_the_number_of_permutations_allows():
    assert _p(np.arange(12.0), np.arange(12.0) ** 3, _singles(12), num=999) == 1 / 1000


def test_a_reversed_order_is_no_evidence():
    assert _p(np.arange(8.0), -np.arange(8.0), _singles(8)) == 1


@pytest.mark.parametrize("measured", [[1, 2, 3, 4, 5], [2, 1, 3, 5, 4], [1, 2, 2, 3, 2]])
def test_one_adapter_per_source_agrees_with_all_permutations(measured):
    predicted = [0.1, 0.2, 0.3, 0.4, 0.5]
    found = spearman(predicted, measured)
    exact = np.mean([spearman(predicted, order) >= found - 1e-12 for order in permutations(measured)])
    assert _p(predicted, measured, _singles(5), num=20_000) == pytest.approx(exact, abs=0.01)


def test_blocks_of_two_agree_with_all_that_are_exchangeable():
    """3! orders of the blocks times 2^3 orders within them."""
    predicted, measured = [1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5]
    blocks = [measured[i : i + 2] for i in (0, 2, 4)]
    orders = [
        [value for block, flip in zip(order, flips, strict=True) for value in (block[::-1] if flip else block)]
        for order in permutations(blocks)
        for flips in np.ndindex(2, 2, 2)
    ]
    found = spearman(predicted, measured)
    exact = np.mean([spearman(predicted, order) >= found - 1e-12 for order in orders])
    assert _p(predicted, measured, ["a", "a", "b", "b", "c", "c"], num=20_000) == pytest.approx(exact, abs=0.01)


def test_p_is_near_uniform_where_predictions_say_nothing():
    rng = np.random.default_rng(0)
    found = [_p(rng.normal(size=12), rng.normal(size=12), _singles(12), num=199, seed=i) for i in range(400)]
    for level in (0.05, 0.25, 0.5, 0.75):
        assert np.mean(np.array(found) <= level) == pytest.approx(level, abs=0.07)


def test_where_sources_alone_make_the_order_blocks_keep_their_level_and_single_adapters_do_not():
    """Ten sources of three adapters that hardly differ: thirty adapters pretend to be thirty observations."""
    rng, sources = np.random.default_rng(1), [str(i // 3) for i in range(30)]
    by_block, as_singles = [], []
    for seed in range(200):
        predicted, measured = (np.repeat(rng.normal(size=10), 3) + 0.01 * rng.normal(size=30) for _ in range(2))
        by_block.append(_p(predicted, measured, sources, num=199, seed=seed))
        as_singles.append(_p(predicted, measured, _singles(30), num=199, seed=seed))
    assert np.mean(np.array(by_block) <= 0.05) < 0.1
    assert np.mean(np.array(as_singles) <= 0.05) > 0.15


def test_a_source_of_a_size_of_its_own_keeps_its_block():
    assert _p([1, 2, 3, 4], [1, 1, 2, 2], ["a", "b", "b", "b"], num=2000) > _p([1, 2, 3, 4], [1, 1, 2, 2], _singles(4))


def test_monotone_transforms_change_nothing():
    rng, sources = np.random.default_rng(2), [str(i // 2) for i in range(12)]
    x, y = rng.normal(size=(2, 12))
    assert _p(x, y, sources) == _p(np.exp(x), y**3, sources)


def test_a_constant_has_no_p_and_unpaired_lists_are_refused():
    assert _p([1, 1, 1], [1, 2, 3], _singles(3)) is None
    assert _p([1, 2, 3], [1, 1, 1], _singles(3)) is None
    with pytest.raises(ConfigError, match="pair"):
        _p([1, 2], [1, 2, 3], _singles(3))
