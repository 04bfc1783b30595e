import numpy as np
import pytest

from lora_spec.predictors import novelty


def test_distance_is_per_column_and_exact_on_a_hand_made_case():
    points = np.array([[0.0, 0.0], [3.0, 4.0], [30.0, 40.0]])
    assert novelty.neighbour_distance(np.zeros(2), points, 1) == 0.0
    assert novelty.neighbour_distance(np.zeros(2), points, 2) == pytest.approx(0.5 * 5 / np.sqrt(2))


def test_training_points_themselves_are_not_novel_and_a_far_one_is():
    points = np.random.default_rng(0).normal(size=(40, 6))
    names = [f"adapter-{i}" for i in range(40)]
    reference = novelty.fit_reference(points, [str(i % 10) for i in range(40)], num_neighbours=3, level=0.95)
    assert novelty.distance_reasons(points[7], points, reference, names) == []
    (code, message), *_ = novelty.distance_reasons(points[7] + 20, points, reference, names)
    assert code == "R_OUT_OF_DISTRIBUTION"
    assert "adapter-" in message


def test_the_threshold_ignores_neighbours_of_the_same_source():
    twins = np.repeat(np.arange(4.0)[:, None], 2, axis=0)
    by_source = novelty.fit_reference(twins, list("aabbccdd"), num_neighbours=1, level=0.95)
    by_adapter = novelty.fit_reference(twins, list("abcdefgh"), num_neighbours=1, level=0.95)
    assert by_adapter["threshold"] == 0.0
    assert by_source["threshold"] == 1.0


def test_range_is_judged_only_where_the_model_looks():
    ranges = {"used": [0.0, 1.0], "unused": [0.0, 1.0]}
    assert novelty.range_reasons({"used": 1.2, "unused": 9.0}, ranges, ["used"], margin=0.25) == []
    ((code, message),) = novelty.range_reasons({"used": 1.3, "unused": 0.5}, ranges, ["used"], margin=0.25)
    assert code == "R_FEATURE_OUT_OF_RANGE"
    assert "used = 1.3" in message


def test_a_column_that_never_varied_is_named_when_it_does():
    assert novelty.constant_reasons({"layers": 30.0}, {"layers": 30.0}) == []
    ((code, message),) = novelty.constant_reasons({"layers": 32.0}, {"layers": 30.0})
    assert code == "R_FEATURE_NEVER_VARIED"
    assert "layers = 32" in message
