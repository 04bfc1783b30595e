"""The noise floor by seed repeats, on made-up records whose spreads are known."""

import numpy as np
import pytest

from lora_spec.errors import ConfigError, MeasurementError
from lora_spec.measurement.seed_noise import (
    SeedNoiseSettings,
    between_groups_share,
    pooled_sd,
    prompt_variance,
    seed_noise,
)
from lora_spec.measurement.summary import SummarySettings
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord

DRAFTS, DEPTH = 1000, 2
HOW = SummarySettings(num_speculative_tokens=DEPTH, min_drafts=1, level=0.9, num_bootstrap_draws=400, seed=0)


def _rows(prompt_set, arm, adapter, rates):
    """Return rows of one arm: prompt i accepts the first token at ``rates[i]``, the second at half of that."""
    for index, rate in enumerate(rates):
        for depth in range(1, DEPTH + 1):
            per_pos = (round(DRAFTS * rate), round(DRAFTS * rate / 2))[:depth]
            counts = AcceptanceCounts(DRAFTS, DRAFTS * depth, sum(per_pos), per_pos)
            yield PromptRecord(f"{prompt_set}-{index:04d}", prompt_set, arm, adapter, counts, 5, (1, 2), "stop")


def _record(name, own, *, base=0.8):
    common = [0.5, 0.5]
    rows = []
    for prompt_set, rates in (("own", own), ("common", common)):
        rows += _rows(prompt_set, "base", None, [base] * len(rates))
        rows += _rows(prompt_set, "adapted", name, rates)
    return AcceptanceRecord(name, name.encode().hex().ljust(64, "0")[:64], tuple(rows))


def _settings(groups, separate):
    return SeedNoiseSettings(tuple(map(tuple, groups)), {name: name[0] for name in separate}, HOW)


def _own(found, name):
    return found["prompt_sets"][0]["quantities"][name]


def test_the_pooled_variance_is_the_sum_of_squares_over_the_degrees_of_freedom():
    found = pooled_sd([[1, 3], [2, 2, 2]], level=0.9)
    assert found.degrees_of_freedom == 3
    assert found.sd == pytest.approx((2 / 3) ** 0.5)


def test_the_interval_of_four_degrees_of_freedom_is_that_of_the_tables():
    # Chi-square with 4 degrees of freedom: 5 % quantile 0.711, 95 % quantile 9.488.
    found = pooled_sd([[0, 1, 2], [5, 6, 7]], level=0.9)
    assert (found.lower, found.sd, found.upper) == pytest.approx(
        ((4 / 9.488) ** 0.5, 1.0, (4 / 0.711) ** 0.5), rel=1e-3
    )


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    found = [pooled_sd(rng.normal([[3], [9]], 0.2, (2, 3)), level=0.9) for _ in range(1000)]
    assert np.mean([one.lower <= 0.2 <= one.upper for one in found]) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("groups", [[], [[1.0]], [[1.0], [2.0]]])
def test_without_two_of_a_recipe_there_is_no_spread(groups):
    assert pooled_sd(groups, level=0.9) is None


def test_prompt_noise_of_its_own_per_adapter_counts_whole_and_shared_noise_not_at_all():
    rng = np.random.default_rng(1)
    apart = rng.normal(0, 0.3, (3, 200_000, 1))
    assert prompt_variance(apart) == pytest.approx(0.09, rel=0.02)
    assert prompt_variance(np.repeat(apart[:1], 3, axis=0)) == pytest.approx(0, abs=1e-12)


def test_a_spread_without_noise_of_prompts_is_all_of_training():
    records = [_record(f"a{i}", [rate] * 8) for i, rate in enumerate((0.2, 0.4, 0.6))]
    found = seed_noise(records, _settings([["a0", "a1", "a2"]], ["a0"]))
    # E_2 = 1 + rate + rate / 2, so its standard deviation is 1.5 times that of 0.2, 0.4, 0.6.
    for name, expected in (
        ("acceptance_length", 0.3),
        ("acceptance_length_difference", 0.3),
        ("a_1", 0.2),
        ("a_2", 0.1),
    ):
        quantity = _own(found, name)
        assert quantity["between_seeds"]["sd"] == pytest.approx(expected)
        assert quantity["training_sd"] == pytest.approx(expected)
        assert quantity["expected_of_prompts_sd"] == pytest.approx(0, abs=1e-9)
    common = found["prompt_sets"][1]["quantities"]["acceptance_length"]
    assert common["between_seeds"]["sd"] == pytest.approx(0, abs=1e-12)


def test_the_share_is_that_of_the_variance_between_separate_adapters():
    rates = {"a": 0.2, "a_seed2": 0.3, "b": 0.5, "c": 0.8}
    records = [_record(name, [rate] * 4) for name, rate in rates.items()]
    quantity = _own(seed_noise(records, _settings([["a", "a_seed2"]], ["a", "b", "c"])), "a_1")
    assert quantity["num_adapters"] == 3
    assert quantity["share_of_variance"] == pytest.approx(0.005 / 0.09)


def test_what_sources_explain_is_all_where_adapters_of_one_are_equal_and_little_where_sources_are_mere_names():
    rates = {"a": 0.2, "a_seed2": 0.2, "a3": 0.2, "b": 0.5, "b2": 0.5}
    records = [_record(name, [rate] * 4) for name, rate in rates.items()]
    quantity = _own(seed_noise(records, _settings([["a", "a_seed2"]], ["a", "a3", "b", "b2"])), "a_1")
    assert (quantity["num_sources"], quantity["between_sources_share"]) == (2, pytest.approx(1))
    rng = np.random.default_rng(3)
    share = between_groups_share(rng.normal(size=10_000), [str(i % 10) for i in range(10_000)])
    assert share == pytest.approx(9 / 9_999, abs=0.003)
    assert between_groups_share([0.3, 0.3], ["a", "b"]) is None


def test_adapters_that_differ_by_their_prompts_alone_show_just_the_spread_that_prompts_are_expected_to_give():
    rng = np.random.default_rng(2)
    seen, expected = [], []
    for _ in range(25):
        records = [_record(f"a{i}", rng.uniform(0.3, 0.7, 24)) for i in range(3)]
        quantity = _own(seed_noise(records, _settings([["a0", "a1", "a2"]], ["a0"])), "a_1")
        seen.append(quantity["between_seeds"]["sd"] ** 2)
        expected.append(quantity["expected_of_prompts_sd"] ** 2)
    error = np.std(seen) / len(seen) ** 0.5
    assert np.mean(seen) == pytest.approx(0.4**2 / 12 / 24, abs=3.5 * error)
    assert np.mean(expected) == pytest.approx(0.4**2 / 12 / 24, rel=0.15)


def test_without_repeats_it_says_so():
    found = seed_noise([_record("a", [0.5] * 4)], _settings([], ["a"]))
    assert (found["num_groups"], found["prompt_sets"]) == (0, None)
    assert "no repeats" in found["sentence"]


def test_a_single_separate_adapter_gives_no_share():
    records = [_record("a", [0.2] * 4), _record("b", [0.3] * 4)]
    found = seed_noise(records, _settings([["a", "b"]], ["a"]))
    assert _own(found, "a_1")["share_of_variance"] is None
    assert "1 degrees of freedom" in found["sentence"]


def test_repeats_on_different_prompts_and_adapters_without_a_record_are_refused():
    records = [_record("a", [0.2] * 4), _record("b", [0.3] * 5)]
    with pytest.raises(MeasurementError, match="different prompts"):
        seed_noise(records, _settings([["a", "b"]], ["a"]))
    with pytest.raises(MeasurementError, match="'c' has no record"):
        seed_noise(records, _settings([["a", "c"]], ["a"]))


@pytest.mark.parametrize(
    ("groups", "separate", "message"),
    [
        ([["a"]], ["a"], "two adapters or more"),
        ([[]], ["a"], "two adapters or more"),
        ([["a", "a"]], ["a"], "stands twice"),
        ([["a", "b"], ["b", "c"]], ["a"], "stands twice"),
        ([["a", "b"]], [], "separate names no adapter"),
    ],
)
def test_groups_that_tell_no_noise_are_refused(groups, separate, message):
    with pytest.raises(ConfigError, match=message):
        _settings(groups, separate)
