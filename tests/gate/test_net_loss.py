"""The question behind AUROC: its load follows from the base and the clock alone."""

from dataclasses import replace

import pytest
from hand_made import SETTINGS, cost_model

from lora_spec.errors import ResultError
from lora_spec.gate.net_loss import ask, base_counts, fix_load
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord

# T_3 / T_0 by batch size.
RATIOS = {b: (1.0, 1.0, 1.0, ratio, 5.0) for b, ratio in {1: 1.2, 2: 1.5, 4: 1.8, 8: 2.4, 16: 2.9}.items()}
WIDE = replace(SETTINGS, batch_sizes=(1, 2, 4, 8, 16), dead_band=0.02)


def _lengths(*lengths, low=0.15, high=0.85, base=1.9):
    load = fix_load(base, cost_model(RATIOS), WIDE)
    return ask(load, lengths, min_prevalence=low, max_prevalence=high)


def test_the_load_is_the_largest_at_which_the_base_still_gains():
    load = fix_load(1.9, cost_model(RATIOS), WIDE)
    assert (load.num_speculative_tokens, load.batch_size) == (3, 4)
    assert load.base_speedup == pytest.approx(1.9 / 1.8)
    assert load.break_even_acceptance_length == pytest.approx(1.8)


def test_a_gain_inside_the_dead_band_is_none():
    assert fix_load(1.8 * 1.019, cost_model(RATIOS), WIDE).batch_size == 2
    assert fix_load(1.8 * 1.021, cost_model(RATIOS), WIDE).batch_size == 4


def test_loads_beyond_the_clock_are_not_asked_about():
    far = replace(WIDE, batch_sizes=(4, 64))
    assert fix_load(3.9, cost_model(RATIOS), far).batch_size == 4


def test_an_adapter_is_a_net_loss_where_it_makes_fewer_tokens_a_second_than_without_speculation():
    load, model = fix_load(1.9, cost_model(RATIOS), WIDE), cost_model(RATIOS)
    for length in (1.0, 1.79, 1.81, 3.0):
        with_it = length / model.step_time_ms(3, load.batch_size).interval.estimate
        without = 1 / model.step_time_ms(0, load.batch_size).interval.estimate
        assert load.is_net_loss(length) == (with_it < without)


def test_a_base_that_gains_nowhere_leaves_nothing_to_ask():
    question = _lengths(1.5, 1.9, base=1.1)
    assert (question.load, question.is_scored, question.answers([1.5])) == (None, False, None)
    assert "at no load" in question.reason


def test_an_answer_that_nearly_all_share_is_not_scored_and_says_so():
    rare = _lengths(1.5, *[2.0] * 9)
    assert (rare.prevalence, rare.is_scored) == (0.1, False)
    assert "10% of the adapters are net losses at batch 4" in rare.reason
    assert not _lengths(2.0, *[1.5] * 9).is_scored
    common = _lengths(1.5, 1.5, *[2.0] * 8)
    assert (common.prevalence, common.is_scored, common.reason) == (0.2, True, None)
    assert common.answers([1.5, 2.0]) == [True, False]


def _record(name, arm, prompt_set, accepted, depth=3):
    counts = AcceptanceCounts(10, 10 * depth, accepted, (accepted, *[0] * (depth - 1)))
    prompt = PromptRecord("p", prompt_set, arm, name if arm == "adapted" else None, counts, 1, (1,), "stop")
    return AcceptanceRecord(name, "sha", (prompt,))


def test_the_base_is_pooled_over_its_own_arm_set_and_depth_alone():
    records = [
        _record("a", "base", "common", 4),
        _record("b", "base", "common", 6),
        _record("a", "adapted", "common", 0),
        _record("a", "base", "own", 9),
        _record("a", "base", "common", 9, depth=2),
    ]
    assert base_counts(records, prompt_set="common", depth=3).acceptance_length == 1.5
    with pytest.raises(ResultError, match="no drafts of the base on 'calm'"):
        base_counts(records, prompt_set="calm", depth=3)
