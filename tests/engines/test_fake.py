import pytest

from lora_spec.engines import AdapterRef, GenerationRequest, Trajectory, open_engine, open_replayer
from lora_spec.errors import EngineError, MeasurementError

ADAPTER = AdapterRef("json", "nowhere", 8)


def _requests(num_prompts, adapter=None, max_tokens=64):
    return [GenerationRequest(str(i), (7, 8, 9 + i), max_tokens, adapter) for i in range(num_prompts)]


def _engine(**options):
    return open_engine("fake", acceptance={None: 0.7, "json": 0.2}, **options)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_acceptance_length_is_the_geometric_sum_of_the_known_probability(depth):
    engine = _engine(end_probability=0.0)
    engine.set_depth(depth)
    with engine.counters() as window:
        engine.generate(_requests(300))
    expected = (1 - 0.7 ** (depth + 1)) / (1 - 0.7)
    # 300 prompts x 64 tokens: the standard error of the length is below 0.015.
    assert window.delta.acceptance_length == pytest.approx(expected, abs=0.06)


def test_a_window_holds_only_what_ran_inside_it():
    engine = _engine()
    engine.generate(_requests(3))
    with engine.counters() as window:
        completions = engine.generate(_requests(5))
    assert window.delta == sum((c.counts(4) for c in completions[1:]), completions[0].counts(4))


def test_depth_zero_drafts_nothing_and_leaves_the_tokens():
    engine = _engine()
    full = engine.generate(_requests(4))
    engine.set_depth(0)
    with engine.counters() as window:
        none = engine.generate(_requests(4))
    assert window.delta.num_drafts == 0
    assert [c.output_token_ids for c in none] == [c.output_token_ids for c in full]


def test_depth_by_adapter_leaves_others_at_the_default():
    engine = _engine()
    engine.set_depth(3, depth_by_adapter={"json": 1})
    base, adapted = engine.generate([*_requests(1), *_requests(1, ADAPTER)])
    assert set(base.drafted_per_step) == {3}
    assert set(adapted.drafted_per_step) == {1}


def test_fake_replay_gives_the_live_counts():
    from lora_spec.engines.verify_steps import accepted_per_step

    engine = _engine()
    completions = engine.generate(_requests(20, ADAPTER))
    trajectories = [
        Trajectory(c.request_id, r.prompt_token_ids, c.output_token_ids, (1, 1, 1, 1), c.finish_reason, ADAPTER)
        for c, r in zip(completions, _requests(20), strict=True)
    ]
    matches = open_replayer("fake", acceptance={None: 0.7, "json": 0.2}).match_drafts(trajectories)
    for completion, row in zip(completions, matches, strict=True):
        assert accepted_per_step(row, len(completion.output_token_ids), 4) == completion.accepted_per_step


def test_a_reset_inside_a_window_is_an_error():
    engine = _engine(fault="reset_counters")
    engine.generate(_requests(2))
    with pytest.raises(MeasurementError, match="reset"), engine.counters():
        engine.generate(_requests(2))


def test_a_window_left_by_an_error_does_not_hide_it():
    engine = _engine()
    with pytest.raises(EngineError, match="no adapter"), engine.counters():
        engine.generate(_requests(1, AdapterRef("unknown", "nowhere", 8)))


def test_an_unknown_engine_is_named_with_the_choices():
    with pytest.raises(EngineError, match="vllm_offline"):
        open_engine("vlm")


@pytest.mark.parametrize("options", [{"fault": "gremlins"}, {"num_speculative_tokens": 2}])
def test_what_the_fake_cannot_do_is_refused(options):
    with pytest.raises(EngineError):
        _engine(**options).set_depth(3)
