"""Whether an engine should draft at all: limits of the mix, and what is refused."""

import json

import pytest
from fleets import fleet, made
from hand_made import cost_model

from lora_spec.errors import ConfigError
from lora_spec.gate.engine_choice import drafting_gain, read_traffic

MODEL = cost_model()
LOAD = {"batch_size": 16, "off_tax": 0.05, "token_ms": 0.5}


def _gain(verdicts, depths, **how):
    return drafting_gain(verdicts, depths, MODEL, **LOAD | how)


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
    assert not _gain(verdicts, depths, batch_size=16).is_drafter_worth_it


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


def test_traffic_is_read_from_a_json_object(tmp_path):
    path = tmp_path / "traffic.json"
    path.write_text(json.dumps({"a": 3, "two words": 0.5}))
    assert read_traffic(path) == {"a": 3.0, "two words": 0.5}


@pytest.mark.parametrize(
    "text", ["[1]", '{"a": "x"}', '{"a": true}', '{"a": 1, "a": 2}', "", '{"a": null}', '{"a": NaN}']
)
def test_anything_else_is_refused_with_the_file_named(tmp_path, text):
    path = tmp_path / "traffic.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"traffic\.json"):
        read_traffic(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no readable traffic"):
        read_traffic(tmp_path / "none.json")
