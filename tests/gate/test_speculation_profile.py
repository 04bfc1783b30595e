import dataclasses

import numpy as np
import pytest
from fleets import made

from lora_spec.errors import ResultError
from lora_spec.gate.speculation_profile import conditional_rates, length_histogram, speculation_profile
from lora_spec.records import AcceptanceCounts

# 100 steps: 40 gained one token, 30 two, 30 three.
COUNTS = AcceptanceCounts(100, 200, 90, (60, 30))
CONDITIONS = {"engine": "fake"}


def _summary(counts=COUNTS, sha="0" * 64):
    arms = {arm: dataclasses.asdict(counts) for arm in ("base", "adapted")}
    lengths = [{"estimate": e, "lower": e, "upper": e, "level": 0.9} for e in (1.6, 1.9, 1.95)]
    return {
        "adapter_sha256": sha,
        "estimate": {"acceptance_length_by_depth": lengths},
        "effects": [{"prompt_set": "own", "num_prompts": 7, "counts": arms}],
    }


def _verdict(**fields):
    return made("a", (3, 3), **({"weights_sha256": "0" * 64} | fields))


def test_vectors_histogram_and_mean_come_from_the_same_counts():
    profile = speculation_profile(_verdict(), _summary(), conditions=CONDITIONS)
    assert profile["marginal_accept_rates"] == [0.6, 0.3]
    assert profile["conditional_accept_rates"] == pytest.approx([0.6, 0.5])
    assert profile["acceptance_length_histogram"] == {"1": 40, "2": 30, "3": 30}
    assert profile["mean_accept_length"] == pytest.approx(1.9)
    assert profile["accept_length_by_k"] == {"1": 1.6, "2": 1.9, "3": 1.95}
    assert profile["validation"]["mean_consistency"]["passed"]
    assert (profile["measured"], profile["num_speculative_tokens"]) == (True, 2)
    assert profile["measurement_conditions"]["num_samples"] == 7
    assert profile["measurement_conditions"]["engine"] == "fake"


def test_histogram_and_rates_tell_the_same_steps():
    rng = np.random.default_rng(1)
    for depth in (1, 3, 5):
        steps = rng.integers(0, depth + 1, size=50)
        counts = AcceptanceCounts.from_accepted_per_step(steps.tolist(), depth)
        histogram = length_histogram(counts)
        assert sum(histogram.values()) == 50
        assert sum(int(length) * n for length, n in histogram.items()) == 50 + steps.sum()
        marginal = counts.acceptance_rate_per_pos
        assert np.cumprod(conditional_rates(marginal)) == pytest.approx(marginal)


def test_where_nothing_is_accepted_conditional_rates_are_zero():
    assert conditional_rates((0.0, 0.0)) == [0.0, 0.0]


def test_counts_of_other_weights_or_of_no_drafts_are_refused():
    with pytest.raises(ResultError, match="weights"):
        speculation_profile(_verdict(), _summary(sha="1" * 64), conditions={})
    with pytest.raises(ResultError, match="no drafts"):
        speculation_profile(_verdict(), _summary(AcceptanceCounts.zero(2)), conditions={})


def test_a_measured_verdict_alone_gives_the_mean_and_no_vectors():
    profile = speculation_profile(_verdict(), None, conditions=CONDITIONS)
    assert (profile["measured"], profile["mean_accept_length"]) == (True, 1.5)
    assert profile["conditional_accept_rates"] is None
    assert "--measured" in profile["vectors_unavailable_reason"]
    assert profile["accept_length_by_k"] == {"3": 1.5}


def test_a_prediction_is_never_taken_for_a_measurement():
    profile = speculation_profile(_verdict(mode="checkpoint_only", predictor_sha256="p"), None, conditions=CONDITIONS)
    assert (profile["measured"], profile["mean_accept_length"], profile["accept_length_by_k"]) == (False, None, {})
    assert profile["marginal_accept_rates"] is None
    assert profile["prediction"]["mean_accept_length"] == {"estimate": 1.5, "lower": 1.4, "upper": 1.6, "level": 0.9}
    assert profile["prediction"]["predictor_sha256"] == "p"
    assert not {"counted_by", "evidence"} & set(profile["measurement_conditions"])


def test_a_profile_says_what_a_prediction_rests_on():
    told = {
        mode: speculation_profile(_verdict(mode=mode), None, conditions=CONDITIONS)["vectors_unavailable_reason"]
        for mode in ("checkpoint_only", "checkpoint_calib")
    }
    assert "probe" in told["checkpoint_calib"]
    assert "probe" not in told["checkpoint_only"]


def test_a_verdict_that_knows_nothing_gives_a_profile_that_says_nothing():
    blind = _verdict(mode="checkpoint_only", action="abstain", acceptance_length=None, speedup=None, context={})
    profile = speculation_profile(blind, None, conditions={})
    assert profile["prediction"]["mean_accept_length"] is None
    assert profile["target_model"] is None
