"""One engine for a fleet: whether it should draft at all, and depths that suit the mix."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from fleets import fleet, made
from hand_made import cost_model

from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.step_parts import STEP_PART_NAMES
from lora_spec.errors import ConfigError
from lora_spec.gate.engine_choice import OneEngine, depths_for_mix, drafting_gain

ENGINE = OneEngine(cost_model(), {1: 0.05, 16: 0.05}, 0.5)
SIZES = (1, 16)


def _gain(verdicts, depths, *, batch_size=16, **how):
    return drafting_gain(verdicts, depths, ENGINE, batch_size=batch_size, **how)


def _speedup(verdict, depth, size=16):
    return next(load.speedups[depth][0] for load in verdict.by_load if load.batch_size == size)


def test_an_engine_in_which_all_are_off_loses_the_tax(tmp_path):
    verdicts = fleet(tmp_path, a=0.1, b=0.2)
    found = _gain(verdicts, {"a": 0, "b": 0})
    assert found.goodput_ratio == pytest.approx(1 / 1.05)
    assert not found.is_drafter_worth_it


@pytest.mark.parametrize("alpha", [0.1, 0.9])
@pytest.mark.parametrize("depth", [1, 3])
def test_an_adapter_alone_gains_its_own_speedup(tmp_path, alpha, depth):
    verdicts = fleet(tmp_path, a=alpha)
    found = _gain(verdicts, {"a": depth})
    assert found.goodput_ratio == pytest.approx(_speedup(verdicts[0], depth))
    assert found.is_drafter_worth_it == (_speedup(verdicts[0], depth) >= 1)


def test_one_that_gains_little_costs_the_others_more_and_the_mix_is_better_without(tmp_path):
    verdicts = fleet(tmp_path, gains=0.75, b=0.05, c=0.05, d=0.05)
    depths = {"gains": 1, "b": 0, "c": 0, "d": 0}
    assert _speedup(verdicts[-1], 1) > 1
    assert not _gain(verdicts, depths).is_drafter_worth_it


def test_who_has_no_traffic_does_not_count(tmp_path):
    verdicts = fleet(tmp_path, a=0.9, b=0.05)
    alone = _gain(verdicts[:1], {"a": 3})
    assert _gain(verdicts, {"a": 3, "b": 0}, shares={"a": 12.0}) == alone
    assert _gain(verdicts, {"a": 3, "b": 0}, shares={}) is None


@pytest.mark.parametrize("tokens_of_b", [0.0, 1.0, 9.0])
def test_alone_in_the_batch_each_token_costs_what_its_adapter_takes(tmp_path, tokens_of_b):
    """1 / ratio = the mean over tokens of 1 / speedup, and of 1 + tax for who is off."""
    verdicts = fleet(tmp_path, a=0.9, b=0.05)
    found = _gain(verdicts, {"a": 3, "b": 0}, shares={"a": 1.0, "b": tokens_of_b}, batch_size=1)
    share = 1 / (1 + tokens_of_b)
    expected = share / _speedup(verdicts[0], 3, size=1) + (1 - share) * 1.05
    assert 1 / found.goodput_ratio == pytest.approx(expected)


def test_adapters_without_an_estimate_are_named_and_left_out(tmp_path):
    known, unknown = fleet(tmp_path, a=0.9), made("u", (3, 3))
    found = _gain([*known, unknown], {"a": 3, "u": 3})
    assert found.unknown_adapters == ("u",)
    assert found.goodput_ratio == _gain(known, {"a": 3}).goodput_ratio
    assert _gain([unknown], {"u": 3}) is None


@pytest.mark.parametrize("shares", [{"stranger": 1.0}, {"a": -1.0}, {"a": float("inf")}, {"a": float("nan")}])
def test_traffic_of_nobody_or_of_no_size_is_refused(tmp_path, shares):
    with pytest.raises(ConfigError, match="traffic of adapter"):
        _gain(fleet(tmp_path, a=0.9), {"a": 3}, shares=shares)


ALONE = {"good": [3, 2], "fair": [2, 1], "poor": [0, 0], "bad": [1, 0]}


@pytest.fixture
def verdicts(tmp_path):
    return fleet(tmp_path, good=0.85, fair=0.6, poor=0.05, bad=0.3)


def _ratio(verdicts, depths, place):
    return _gain(verdicts, depths, batch_size=SIZES[place]).goodput_ratio


@pytest.mark.parametrize("place", [0, 1])
def test_depths_for_the_mix_are_the_best_of_all_that_no_verdict_forbids(verdicts, place):
    alone = {name: [found[place]] for name, found in ALONE.items()}
    chosen = depths_for_mix(verdicts, alone, ENGINE, batch_sizes=[SIZES[place]])
    found = _ratio(verdicts, {name: depths[0] for name, depths in chosen.items()}, place)
    every = itertools.product(*(range(most[0] + 1) for most in alone.values()))
    assert found == pytest.approx(max(_ratio(verdicts, dict(zip(alone, one, strict=True)), place) for one in every))


def test_depths_for_the_mix_are_never_deeper_than_alone_nor_than_at_an_emptier_load(verdicts):
    chosen = depths_for_mix(verdicts, ALONE, ENGINE, batch_sizes=SIZES)
    for name, (empty, crowded) in chosen.items():
        assert empty <= ALONE[name][0]
        assert crowded <= min(ALONE[name][1], empty)


def test_an_adapter_alone_keeps_the_depth_of_its_verdict(tmp_path):
    (verdict,) = fleet(tmp_path, a=0.8)
    alone = {"a": [load.num_speculative_tokens for load in verdict.by_load]}
    assert depths_for_mix([verdict], alone, ENGINE, batch_sizes=SIZES) == alone


def _abstaining(verdict):
    loads = tuple(replace(load, action="abstain", num_speculative_tokens=None) for load in verdict.by_load)
    return replace(verdict, action="abstain", by_load=loads)


def test_an_abstained_adapter_keeps_its_depth_and_so_does_one_without_estimates(verdicts):
    fixed = [_abstaining(v) if v.name == "poor" else v for v in verdicts] + [made("blind", (3, 3))]
    alone = {**ALONE, "poor": [3, 3], "blind": [3, 3]}
    chosen = depths_for_mix(fixed, alone, ENGINE, batch_sizes=SIZES)
    assert chosen["poor"] == chosen["blind"] == [3, 3]


def test_taxes_and_what_a_verified_token_costs_come_from_the_parts_of_a_step():
    cost = {"step_ms": 80.0, "idle_draft_ms": 4.0}
    parts = np.array([cost.get(name, 0.0) for name in STEP_PART_NAMES])
    fitted = StepCostModel(parts, parts[None], np.zeros(4), np.zeros((1, 4)), {})
    engine = OneEngine.of(cost_model(), fitted, SIZES, num_context_tokens=64)
    assert engine.off_taxes == pytest.approx({1: 0.05, 16: 0.05})
    assert engine.steps(16, 3).alike_ms.tolist() == pytest.approx([105.0, 170.0, 230.0, 290.0])
