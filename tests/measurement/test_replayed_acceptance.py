from dataclasses import replace

import pytest

from lora_spec.engines import open_replayer
from lora_spec.errors import MeasurementError
from lora_spec.measurement import measure_arm, record_trajectories, replay_acceptance, replay_arm

ACCEPTANCE = {None: 0.7, "json": 0.3}


def _record(engine, prompts, adapter):
    return record_trajectories(engine, prompts, adapter=adapter, max_tokens=40, num_overrun_tokens=4)


def test_recording_drafts_nothing_and_continues_past_the_end(make_engine, prompts, adapter):
    engine = make_engine()
    with engine.counters() as window:
        trajectories = _record(engine, prompts, adapter)
    assert window.delta.num_drafts == 0
    assert {len(t.overrun_token_ids) for t in trajectories} == {4}
    assert {t.finish_reason for t in trajectories} == {"stop", "length"}


@pytest.mark.parametrize("depth", [1, 3])
def test_replayed_records_equal_live_records(make_engine, prompts, adapter, depth):
    live = measure_arm(
        make_engine(),
        prompts,
        prompt_set="own",
        arm="adapted",
        adapter=adapter,
        num_speculative_tokens=depth,
        max_tokens=40,
        min_drafts=0,
    )
    trajectories = _record(make_engine(), prompts, adapter)
    replayer = open_replayer("fake", acceptance=ACCEPTANCE)
    options = {"prompt_set": "own", "arm": "adapted", "adapter_name": "json"}
    replayed = replay_arm(replayer, trajectories, depths=[depth], **options)
    assert [replace(record, source="live") for record in replayed] == live


def test_replay_gives_every_prompt_arm_and_depth(make_engine, prompts, adapter):
    engine = make_engine()
    arms = (_record(engine, prompts, None), _record(engine, prompts, adapter))
    replayer = open_replayer("fake", acceptance=ACCEPTANCE)
    records = replay_acceptance(replayer, {"own": arms}, adapter_name="json", depths=range(1, 5))
    keys = {(r.prompt_id, r.arm, r.counts.num_speculative_tokens) for r in records}
    assert len(keys) == len(records) == len(prompts) * 2 * 4


def test_arms_over_different_prompts_are_refused(make_engine, prompts):
    trajectories = _record(make_engine(), prompts, None)
    other = [replace(trajectories[0], prompt_id="other"), *trajectories[1:]]
    with pytest.raises(MeasurementError, match="different prompts"):
        replay_acceptance(
            open_replayer("fake", acceptance=ACCEPTANCE),
            {"own": (trajectories, other)},
            adapter_name="json",
            depths=[1],
        )


@pytest.mark.parametrize(("fault", "message"), [("truncated_prompts", "cut"), ("failed_requests", "failed")])
def test_faults_while_recording_raise(make_engine, prompts, fault, message):
    with pytest.raises(MeasurementError, match=message):
        _record(make_engine(fault=fault), prompts, None)
