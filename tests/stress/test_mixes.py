"""Mixes of adapters: goodput in closed form, the oracle, and how policies are held against it."""

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stress_cases import LIVE, RATES, situation

sys.path.append(str(Path(__file__).parent.parent / "gate"))

from hand_made import cost_model as times_of
from hand_made import estimate

from lora_spec.cost_model.mix_goodput import best_depths, goodputs
from lora_spec.cost_model.table_steps import TableSteps
from lora_spec.errors import ConfigError
from lora_spec.policy.policy_file import LiveRule, Load, Policy
from lora_spec.stress.mixes.contenders import Field, Knowledge, make_contenders
from lora_spec.stress.mixes.mix import draw_mixes
from lora_spec.stress.mixes.regret import regrets_of, summary_of
from lora_spec.stress.mixes.serving import Horizon, ServedMix, best_candidate_goodput
from lora_spec.stress.policies.registry import make_candidates

PATTERNS = [{"kind": "uniform", "name": "uniform"}, {"kind": "zipf", "name": "zipf", "exponent": 1.0}]
NAMES = [name for name in RATES if name]
LENGTHS = np.array([[1.0, *(1 + np.cumsum(RATES[name]))] for name in NAMES])
MODEL = replace(times_of(), context={"parts": {"verify_per_token_ms": 0.5}})
LOADS = tuple(Load(size, tuple(1 / MODEL.time_ratio(k, size).estimate for k in range(4))) for size in (1, 16))


def _steps(size, draw=None):
    return TableSteps.of(MODEL, size, max_depth=3, draw=draw)


def _mix(size=16, shares=(0.5, 0.3, 0.2), lengths=LENGTHS):
    return ServedMix(NAMES, lengths, np.array(shares), _steps(size))


def test_one_adapter_alone_makes_what_its_length_and_step_say():
    mix = ServedMix(["fair"], LENGTHS[1:2], np.ones(1), _steps(16))
    assert mix.goodput([2]) == pytest.approx(16 * LENGTHS[1, 2] / mix.steps.alike_ms[2])


def test_alone_in_the_batch_adapters_take_turns():
    mix = _mix(size=1)
    per_token = [
        share * mix.steps.alike_ms[k] / e[k] for share, k, e in zip(mix.shares, (3, 1, 0), LENGTHS, strict=True)
    ]
    assert mix.goodput([3, 1, 0]) == pytest.approx(1 / sum(per_token))


def test_goodput_is_that_of_a_long_run_of_full_batches():
    """Requests of many tokens, served step by step."""
    mix, depths, rng = _mix(size=4, shares=(0.2, 0.3, 0.5)), [3, 1, 0], np.random.default_rng(0)
    mix = ServedMix(NAMES, LENGTHS, mix.shares, TableSteps(4, np.array([50.0, 70.0, 85.0, 99.0]), 2.0))
    left, adapters = np.zeros(4), np.zeros(4, dtype=int)
    tokens = ms = 0.0
    for _ in range(40_000):
        for place in np.nonzero(left <= 0)[0]:
            adapters[place], left[place] = rng.choice(3, p=mix.shares), 200
        ms += mix.steps.step_ms([depths[a] for a in adapters])
        got = LENGTHS[adapters, np.array(depths)[adapters]]
        tokens, left = tokens + got.sum(), left - got
    assert mix.goodput(depths) == pytest.approx(tokens / ms, rel=0.01)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [1, 2, 5, 16])
def test_the_oracle_is_the_best_of_all_assignments(size, seed):
    rng = np.random.default_rng(seed)
    lengths = np.cumsum(np.concatenate([np.ones((4, 1)), np.sort(rng.random((4, 3)))[:, ::-1]], axis=1), axis=1)
    shares = rng.dirichlet(np.ones(4))
    steps = TableSteps(size, 100 * (1 + rng.random() * np.arange(4) * (0.1 + 0.03 * size)), 0.4)
    every = np.array(list(itertools.product(range(4), repeat=4)))
    best = float(goodputs(best_depths(lengths, shares, steps), lengths, shares, steps))
    assert best == pytest.approx(goodputs(every, lengths, shares, steps).max())


def _field(requests=20, **changes):
    told = {"loads": LOADS, "cost": _steps(1), "acceptance": {}, "expected": None, "policy": None}
    return Field(situation(**(told | changes)), Horizon(requests, 64), hot_traffic_share=0.4)


def _served(name, mix, requests=20, **changes):
    shared = _field(requests, **changes)
    return best_candidate_goodput(make_candidates(name, shared.situation), mix, horizon=shared.horizon, seed=0)


def test_a_fixed_policy_counts_as_its_depths_and_hindsight_takes_the_best():
    mix = _mix()
    policy = Policy(3, LOADS, (3, 3), {"good": (3, 1), "fair": (1, 0), "bad": (0, 0)})
    assert _served("policy_file", mix, policy=policy) == mix.goodput([1, 0, 0])
    assert _served("best_static_k", mix) == max(mix.goodput([k] * 3) for k in range(4))
    assert _served("always_standing_k", mix) == mix.goodput([3] * 3)


def test_what_is_learned_early_is_paid_for_and_later_is_as_good_as_known():
    """At batch 16 every depth loses: the gate shuts once its window is full."""
    mix = ServedMix(["bad"], LENGTHS[2:], np.ones(1), _steps(16))
    short, long = (_served("rolling_acceptance_gate", mix, requests) for requests in (1, 400))
    assert mix.goodput([3]) < short < 0.9 * mix.goodput([0])
    assert 0.97 * mix.goodput([0]) < long < mix.goodput([0])


def test_the_live_rule_shuts_off_what_loses():
    mix = ServedMix(["bad"], LENGTHS[2:], np.ones(1), _steps(16))
    policy = Policy(3, LOADS, (3, 3), {}, LiveRule(**LIVE))
    assert _served("policy_file_live", mix, 200, policy=policy) > 0.9 * mix.goodput([0])


def _drawn(num_mixes=3, width=0.1, sizes=(2, 3), seed=0):
    known = [estimate(RATES[name], below=width, above=width) for name in NAMES]
    # hand-made estimates go to K=4
    return draw_mixes(
        known,
        patterns=PATTERNS,
        sizes=sizes,
        num_mixes=num_mixes,
        max_depth=3,
        num_time_draws=len(MODEL.draws_ms),
        seed=seed,
    )


def test_mixes_are_the_same_by_seed_and_of_every_pattern_and_size():
    one, again, other = _drawn(), _drawn(), _drawn(seed=1)
    assert [(m.pattern, len(m.places)) for m in one] == [
        (p["name"], n) for p in PATTERNS for n in (2, 3) for _ in "abc"
    ]
    assert all(np.array_equal(a.lengths, b.lengths) and a.draw == b.draw for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a.lengths, b.lengths) for a, b in zip(one, other, strict=True))
    for mix in one:
        assert len(set(mix.places)) == len(mix.places)
        assert mix.shares.sum() == pytest.approx(1)
        assert np.all(np.diff(mix.shares) <= 0)
        assert mix.lengths[:, 0].tolist() == [1.0] * len(mix.places)


def test_truth_lies_where_the_interval_says_as_often_as_it_says():
    found = np.array([mix.lengths[list(mix.places).index(1), 2] for mix in _drawn(500, sizes=(3,))])
    middle = 1 + sum(RATES["fair"][:2])
    assert np.mean(np.abs(found - middle) <= 0.1) == pytest.approx(0.9, abs=0.03)


def test_mixes_larger_than_the_pool_are_refused():
    with pytest.raises(ConfigError, match="mixes of 4 adapters from 3"):
        _drawn(sizes=(4,))


def _knowledge(**changes):
    rates = {name: RATES[name] for name in NAMES}
    told = {
        "base": dict.fromkeys(NAMES, RATES[None]),
        "predicted": {"checkpoint_only": dict.fromkeys(NAMES, (0.5, 0.25, 0.1)), "checkpoint_calib": rates},
        "probed": {8: rates},
        "policies": {
            ("measured", "plain"): Policy(3, LOADS, (3, 3), dict.fromkeys(NAMES, (3, 0)), LiveRule(**LIVE)),
            ("checkpoint_only", "plain"): Policy(3, LOADS, (3, 3)),
            ("checkpoint_only", "abstained off"): Policy(3, LOADS, (0, 0)),
        },
    }
    return Knowledge(**(told | changes))


def test_contenders_are_told_what_their_basis_says_and_no_more():
    """With the truth withheld from all, every contender still runs; bars are for verdicts alone."""
    made = make_contenders(_field(1), _knowledge(), gate_mode="checkpoint_only")
    told = [(one.policy, one.basis, one.variant) for one in made]
    assert len(set(told)) == len(told)
    assert {one.policy for one in made if one.is_ours} == {"verdicts"}
    assert ("verdicts", "measured", "live rule") in told
    assert ("verdicts", "checkpoint_only", "live rule") not in told  # this file has no live rule
    assert ("direct_probe", "probe of 8 prompts", "plain") in told
    assert all(one.goodput(_mix(), 0) > 0 for one in made)


def test_merged_engines_are_compared_once_a_step_without_lora_is_known():
    (merged,) = [
        one
        for one in make_contenders(_field(), _knowledge(merged_time_ratio={16: 0.5}), gate_mode="checkpoint_only")
        if one.policy == "merged_own_pool"
    ]
    mix = _mix()
    rest = ServedMix(NAMES[1:], LENGTHS[1:], np.array([0.6, 0.4]), mix.steps).goodput([3, 3])
    spent = 0.5 * 0.5 * mix.steps.alike_ms[0] / 16 + 0.5 / rest
    assert merged.goodput(mix, 0) == pytest.approx(1 / spent)
    alone = ServedMix(NAMES[:1], LENGTHS[:1], np.ones(1), mix.steps)
    assert merged.goodput(alone, 0) == pytest.approx(2 * alone.goodput([0]))
    with pytest.raises(ConfigError, match="no step without LoRA is known at batch size 1"):
        merged.goodput(_mix(size=1), 0)


def test_no_contender_beats_the_oracle_and_the_one_told_the_truth_alone_in_the_batch_equals_it():
    made = make_contenders(_field(2), _knowledge(), gate_mode="checkpoint_only")
    mixes = _drawn(width=0.0)
    found = regrets_of(made, mixes, NAMES, MODEL, batch_sizes=(1, 16), max_depth=3, token_ms=0.5, seed=0)
    assert found.shape == (len(made), 2, len(mixes))
    assert np.all(found >= -1e-9)
    told = [one.basis == "checkpoint_calib" for one in made]
    assert np.abs(found[told, 0]).max() == pytest.approx(0, abs=1e-9)
    assert summary_of(found[told, 0])["max"] == pytest.approx(0, abs=1e-9)


def test_being_off_elsewhere_is_no_worse_than_the_oracle_of_an_engine_that_taxes_it():
    made = make_contenders(_field(1), _knowledge(), gate_mode="checkpoint_only")
    mixes = _drawn(width=0.0)
    off = [one.policy for one in made].index("always_off")
    file_off = [one.variant for one in made].index("abstained off")
    asked = {"batch_sizes": (16,), "max_depth": 3, "token_ms": 0.5, "seed": 0}
    free = regrets_of(made, mixes, NAMES, MODEL, **asked)
    taxed = regrets_of(made, mixes, NAMES, MODEL, off_taxes={16: 0.25}, **asked)
    assert free[off] == pytest.approx(free[file_off])
    assert 1 - taxed[file_off] == pytest.approx((1 - taxed[off]) / 1.25)
    assert np.all(taxed >= -1e-9)
