"""Every fault of an engine must raise; none may be averaged away."""

import pytest

from lora_spec.engines import AdapterRef
from lora_spec.errors import MeasurementError
from lora_spec.measurement import Prompt, measure_acceptance, measure_arm


def _measure(engine, prompts, adapter, **changes):
    options = {"num_speculative_tokens": 3, "max_tokens": 40, "min_drafts": 20} | changes
    return measure_acceptance(engine, {"own": prompts, "common": prompts[:10]}, adapter=adapter, **options)


def test_arms_are_paired_by_prompt_and_cap(make_engine, prompts, adapter):
    records = _measure(make_engine(), prompts, adapter)
    ids = {
        (prompt_set, arm): [r.prompt_id for r in records if (r.prompt_set, r.arm) == (prompt_set, arm)]
        for prompt_set in ("own", "common")
        for arm in ("base", "adapted")
    }
    assert ids["own", "base"] == ids["own", "adapted"] == [p.prompt_id for p in prompts]
    assert ids["common", "base"] == ids["common", "adapted"] == [p.prompt_id for p in prompts[:10]]
    assert {r.adapter for r in records if r.arm == "base"} == {None}
    assert {r.adapter for r in records if r.arm == "adapted"} == {"json"}
    assert all(r.counts.num_speculative_tokens == 3 for r in records)
    assert all(r.counts.num_draft_tokens == 3 * r.counts.num_drafts for r in records)


def test_warm_up_prompts_are_not_counted(make_engine, prompts, adapter):
    engine = make_engine()
    records = _measure(engine, prompts, adapter, num_warmup_prompts=5)
    assert sum(r.counts.num_drafts for r in records) < engine.read_counters().num_drafts
    assert records == _measure(make_engine(), prompts, adapter, num_warmup_prompts=0)


def test_the_engine_is_left_at_its_maximum_depth(make_engine, prompts, adapter):
    engine = make_engine()
    _measure(engine, prompts, adapter)
    _measure(engine, prompts, adapter, num_speculative_tokens=4)
    engine = make_engine(fault="truncated_prompts")
    with pytest.raises(MeasurementError):
        _measure(engine, prompts, adapter)
    assert engine._depth == 4


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("lost_counters", "add up to"),
        ("reset_counters", "reset"),
        ("late_counters", "warm-up"),
        ("adapter_ignored", "engine ignored it"),
        ("truncated_prompts", "the engine cut it"),
        ("failed_requests", "the request failed"),
    ],
)
def test_each_fault_raises(make_engine, prompts, adapter, fault, message):
    engine = make_engine(fault=fault)
    with pytest.raises(MeasurementError, match=message):
        _measure(engine, prompts, adapter)


def test_a_zero_update_may_repeat_the_base(make_engine, prompts):
    zero = AdapterRef("zero", "nowhere", 8, has_update=False)
    records = _measure(make_engine(), prompts, zero)
    base, adapted = ([r for r in records if r.arm == arm] for arm in ("base", "adapted"))
    assert [r.output_token_ids for r in base] == [r.output_token_ids for r in adapted]
    assert [r.counts for r in base] == [r.counts for r in adapted]


def test_too_few_drafts_raise(make_engine, prompts, adapter):
    with pytest.raises(MeasurementError, match="drafts, 5000 are needed"):
        _measure(make_engine(), prompts, adapter, min_drafts=5000)


@pytest.mark.parametrize("prompts", [[], [Prompt("twice", (1,)), Prompt("twice", (2,))]])
def test_prompts_that_cannot_be_paired_raise(make_engine, prompts):
    with pytest.raises(MeasurementError, match="repeats a prompt id"):
        measure_arm(
            make_engine(),
            prompts,
            prompt_set="own",
            arm="base",
            adapter=None,
            num_speculative_tokens=3,
            max_tokens=4,
            min_drafts=0,
        )
