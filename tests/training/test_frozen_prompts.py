"""Prompts are frozen by hash, and roles share none."""

import pytest

from lora_spec.errors import ConfigError
from lora_spec.training.chat_prompts import CODE_TASKS, TOPICS, chat_prompts, is_held_out
from lora_spec.training.frozen_prompts import FrozenPrompts, freeze_prompts


def _entry(**changes):
    entry = {
        "prompt_set": "common",
        "role": "evaluation",
        "first_prompt": 0,
        "num_prompts": 6,
        "max_tokens": 40,
        "temperature": 0.0,
        "seed": 5,
        "license": "CC0-1.0",
        "sha256": {"chat": None},
    }
    return {**entry, **changes}


def _frozen(**changes):
    (item,) = freeze_prompts([_entry(**changes)])
    return FrozenPrompts.from_dict(item)


def test_freezing_twice_gives_the_same_hash_and_accepts_it():
    first = _frozen()
    assert _frozen(sha256={"chat": first.sha256}) == first


def test_other_prompts_than_the_frozen_ones_are_refused():
    with pytest.raises(ConfigError, match="generator changed"):
        _frozen(sha256={"chat": "0" * 64})


def test_slices_of_one_stream_share_no_prompt():
    evaluation, calibration = _frozen(), _frozen(role="calibration", first_prompt=6)
    assert not set(evaluation.prompts) & set(calibration.prompts)
    assert evaluation.prompts + calibration.prompts == _frozen(num_prompts=12).prompts


@pytest.mark.parametrize("domain", ["self_chat", "arithmetic", "translation", "python_code"])
def test_own_and_common_prompts_of_one_domain_share_none_even_from_one_seed(domain):
    own, common = (
        _frozen(prompt_set=prompt_set, num_prompts=60, sha256={domain: None}) for prompt_set in ("own", "common")
    )
    assert len(set(own.prompts)) == len(set(common.prompts)) == 60
    assert not set(own.prompts) & set(common.prompts)


def test_a_common_set_of_several_domains_has_the_same_slice_of_each():
    items = freeze_prompts([_entry(first_prompt=2, sha256={"sql": None, "chat": None, "german": None})])
    assert [(item["domain"], len(item["prompts"])) for item in items] == [("chat", 6), ("german", 6), ("sql", 6)]


def test_a_prompt_that_is_own_and_common_is_refused():
    own = _entry(prompt_set="own", num_prompts=200, sha256={"self_chat": None})
    with pytest.raises(ConfigError, match=r"own prompts of domain 'self_chat' and in the common ones of 'chat'"):
        freeze_prompts([own, _entry(num_prompts=200)])
    freeze_prompts([own, _entry(num_prompts=60, sha256={"self_chat": None})])


def test_prompt_ids_are_equal_exactly_where_the_prompts_are():
    assert _frozen(prompt_set="own").prompt_id(3) == _frozen().prompt_id(3)
    assert _frozen(seed=6).prompt_id(3) != _frozen().prompt_id(3)


def test_held_out_prompts_mention_no_training_topic():
    topics = [topic for topic in (*TOPICS, *CODE_TASKS) if not is_held_out(topic)]
    held_out = [topic for topic in (*TOPICS, *CODE_TASKS) if is_held_out(topic)]
    assert len(held_out) > 20
    for prompt in chat_prompts(60, seed=0, held_out=True):
        assert any(topic in prompt for topic in held_out)
        assert not any(f" {topic}." in prompt or f" {topic}?" in prompt for topic in topics)


def test_chat_prompts_are_distinct_and_a_longer_list_begins_with_the_shorter():
    long = chat_prompts(400, seed=2, held_out=False)
    assert len(set(long)) == 400
    assert long[:50] == chat_prompts(50, seed=2, held_out=False)
