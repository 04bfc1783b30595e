"""Prompts of live traffic have the scheduled length and end as the drawn prompt does."""

import pytest

from lora_spec.errors import ConfigError
from lora_spec.stress.live_prompts import OwnTraffic, own_prompts
from lora_spec.traffic.schedule import ScheduledRequest
from lora_spec.training.frozen_prompts import FrozenPrompts

PROMPTS = {"a": [(1, 2, 3), (4, 5, 6, 7, 8), (9,)]}


def _prompt(length, index, adapter="a"):
    return OwnTraffic(PROMPTS)(ScheduledRequest(0, 0.0, adapter, length, 4, index))


@pytest.mark.parametrize("length", [1, 2, 5, 9, 40])
@pytest.mark.parametrize("index", [0, 1, 2, 2**31 - 1])
def test_lengths_are_exact_and_ends_are_the_drawn_prompts(length, index):
    drawn = PROMPTS["a"][index % 3]
    found = _prompt(length, index)
    assert len(found) == length
    shared = min(length, len(drawn))
    assert found[-shared:] == drawn[-shared:]


def test_what_is_too_short_is_preceded_by_the_prompts_before_it():
    assert _prompt(4, 0) == (9, 1, 2, 3)
    assert _prompt(12, 0) == (1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3)


def _frozen(prompt_set, role, domain):
    return FrozenPrompts(prompt_set, role, domain, (f"{prompt_set} {role} {domain}",), 8, 0.0, "CC0-1.0", "0")


def test_an_adapters_prompts_are_its_domains_own_evaluation_prompts():
    roles = [("own", "evaluation"), ("own", "calibration"), ("common", "evaluation")]
    frozen = [_frozen(*role, domain) for role in roles for domain in ("x", "y")]
    assert own_prompts(frozen, {"a": "x", "b": "y"}) == {"a": ("own evaluation x",), "b": ("own evaluation y",)}
    with pytest.raises(ConfigError, match="domain 'z'"):
        own_prompts(frozen, {"a": "z"})
