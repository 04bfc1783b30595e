import random

import pytest

from lora_spec.errors import ConfigError
from lora_spec.evaluation.extremes import choose_extremes

PREDICTED = {f"a{i:02d}": 1 + i / 10 for i in range(20)}
SOURCES = {name: f"s{i // 2}" for i, name in enumerate(PREDICTED)}


def _choose(predicted=PREDICTED, **changes):
    told = {"num_worst": 4, "num_best": 3, "num_random": 5, "seed": 0, **changes}
    return choose_extremes(predicted, SOURCES, **told)


def _names(chosen, group):
    return [item.adapter for item in chosen if item.group == group]


def test_the_ends_of_the_predicted_order_are_chosen_and_the_rest_is_drawn_from_between():
    chosen = _choose()
    assert _names(chosen, "worst") == ["a00", "a01", "a02", "a03"]
    assert _names(chosen, "best") == ["a17", "a18", "a19"]
    drawn = _names(chosen, "random")
    assert len(set(drawn)) == 5
    assert set(drawn) <= {f"a{i:02d}" for i in range(4, 17)}
    assert all(item.predicted == PREDICTED[item.adapter] and item.source == SOURCES[item.adapter] for item in chosen)


def test_the_choice_does_not_depend_on_the_order_in_which_predictions_are_given():
    names = list(PREDICTED)
    random.Random(3).shuffle(names)
    assert _choose({name: PREDICTED[name] for name in names}) == _choose()


def test_a_prediction_in_the_middle_that_stays_there_changes_no_name():
    moved = {**PREDICTED, "a08": PREDICTED["a08"] + 0.35}
    assert {item.adapter for item in _choose(moved)} == {item.adapter for item in _choose()}


def test_another_seed_draws_others_and_leaves_the_ends():
    drawn = {tuple(_names(_choose(seed=seed), "random")) for seed in range(8)}
    assert len(drawn) > 4
    assert {tuple(_names(_choose(seed=seed), "worst")) for seed in range(8)} == {("a00", "a01", "a02", "a03")}


def test_every_adapter_of_the_middle_can_be_drawn():
    drawn = {name for seed in range(100) for name in _names(_choose(seed=seed), "random")}
    assert drawn == {f"a{i:02d}" for i in range(4, 17)}


def test_equal_predictions_stand_in_the_order_of_names():
    chosen = _choose(dict.fromkeys(PREDICTED, 1.5))
    assert _names(chosen, "worst") == ["a00", "a01", "a02", "a03"]
    assert _names(chosen, "best") == ["a17", "a18", "a19"]


def test_all_can_be_chosen_and_none_twice():
    chosen = _choose(num_worst=5, num_best=5, num_random=10)
    assert sorted(item.adapter for item in chosen) == sorted(PREDICTED)


def test_no_best_is_no_best():
    assert _names(_choose(num_best=0), "best") == []


def test_more_than_there_are_is_refused():
    with pytest.raises(ConfigError, match=r"21 adapters are to be confirmed .* and 20 are predicted"):
        _choose(num_worst=10, num_best=10, num_random=1)
