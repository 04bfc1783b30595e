"""Risk, coverage and certificates against closed forms."""

import math

import numpy as np
import pytest

from lora_spec.errors import ConfigError
from lora_spec.evaluation.selective import (
    Bound,
    Certificate,
    Judged,
    certify,
    choose_threshold,
    halve_sources,
    least_certifiable,
    risk_curve,
    upper_bound,
)


def _judged(*pairs, source=None):
    return [Judged(f"a{i}", source or f"s{i}", doubt, wrong) for i, (doubt, wrong) in enumerate(pairs)]


def test_the_curve_counts_what_is_committed_and_wrong_at_every_doubt():
    curve = risk_curve(_judged((0.3, True), (0.1, False), (0.2, False), (math.inf, True)))
    assert [(p.threshold, p.num_committed, p.num_wrong) for p in curve] == [(0.1, 1, 0), (0.2, 2, 0), (0.3, 3, 1)]


def test_equal_doubts_are_committed_together_or_not_at_all():
    assert [p.num_committed for p in risk_curve(_judged((0.1, False), (0.1, True)))] == [2]


def test_the_threshold_is_the_largest_that_keeps_the_risk_also_past_a_bad_stretch():
    judged = _judged((0.1, True), (0.2, False), (0.3, False), (0.4, False), (0.5, True), (0.6, True))
    assert choose_threshold(judged, max_risk=0.25) == 0.4
    assert choose_threshold(judged, max_risk=0.0) is None
    assert choose_threshold(judged, max_risk=1.0) == 0.6


def test_an_infinite_doubt_is_never_committed():
    assert choose_threshold(_judged((math.inf, False)), max_risk=1.0) is None
    assert certify(_judged((math.inf, False)), 1e9, confidence=0.9).adapters.num_committed == 0


@pytest.mark.parametrize("num_trials", [1, 7, 22, 300])
def test_with_nothing_wrong_the_bound_is_the_root_of_one_minus_confidence(num_trials):
    assert least_certifiable(num_trials, 0.9) == pytest.approx(1 - 0.1 ** (1 / num_trials))


def test_with_everything_wrong_nothing_is_bounded():
    assert upper_bound(5, 5, 0.9) == 1
    assert upper_bound(0, 0, 0.9) is None


def test_twenty_two_sound_commits_are_needed_to_certify_one_in_ten():
    assert least_certifiable(21, 0.9) > 0.1 > least_certifiable(22, 0.9)


def test_the_bound_holds_in_at_least_its_share_of_repetitions():
    rng = np.random.default_rng(0)
    draws = rng.binomial(24, 0.15, size=4000)
    assert np.mean([upper_bound(int(wrong), 24, 0.9) >= 0.15 for wrong in draws]) >= 0.9 - 0.01


def test_a_source_is_wrong_once_however_often():
    judged = _judged((0.1, True), (0.1, True), (0.1, False), source="one") + _judged((0.1, False), source="two")
    found = certify(judged, 0.1, confidence=0.9)
    assert (found.adapters.num_wrong, found.adapters.num_committed) == (2, 4)
    assert (found.sources.num_wrong, found.sources.num_committed) == (1, 2)
    assert found.coverage == 1


def test_without_a_threshold_nothing_is_committed_and_nothing_certified():
    found = certify(_judged((0.1, False)), None, confidence=0.9)
    assert (found.coverage, found.adapters.upper, found.sources.upper) == (0, None, None)


def test_halves_share_no_source_and_lose_no_adapter():
    judged = [Judged(f"a{i}", f"s{i % 7}", 0.1, False) for i in range(20)]
    first, second = halve_sources(judged, seed=3)
    assert not {j.source for j in first} & {j.source for j in second}
    assert sorted(j.adapter for j in first + second) == sorted(j.adapter for j in judged)
    assert halve_sources(judged[::-1], seed=3)[0][0].source in {j.source for j in first}
    assert len({j.source for j in first}) == 4


def test_what_cannot_be_certified_is_refused():
    with pytest.raises(ConfigError, match="of sources: 1; halving needs two"):
        halve_sources(_judged((0.1, False), source="one"), seed=0)
    with pytest.raises(ConfigError, match="certifying needs"):
        certify([], 0.1, confidence=0.9)
    with pytest.raises(ConfigError, match="certifying needs"):
        certify(_judged((0.1, False)), 0.1, confidence=0.5)
    with pytest.raises(ConfigError, match="no number"):
        Judged("a", "s", math.nan, False)


@pytest.mark.parametrize(
    "numbers", [(1, 5, 1.0), (5, -1, 0.5), (5, 1, 0.1), (5, 1, 7.0), (5, 1, None), (0, 0, 0.5), (-1, -1, None)]
)
def test_a_bound_that_cannot_be_is_refused(numbers):
    with pytest.raises(ConfigError, match="cannot be"):
        Bound(*numbers)


@pytest.mark.parametrize(("threshold", "confidence"), [(-0.1, 0.9), (0.1, 0.5), (0.1, 1.0), (None, -1.0)])
def test_a_certificate_that_cannot_be_is_refused(threshold, confidence):
    with pytest.raises(ConfigError, match="certifies nothing"):
        Certificate(threshold, 1, 1, Bound(0, 0, None), Bound(0, 0, None), confidence)
