"""The depth rule inside vLLM's own scheduling code, without a model: requests are stand-ins, the code is vLLM's."""

from types import SimpleNamespace

import pytest

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]
DEPTHS = {"json": 1, "upper": 0}


class _Request(SimpleNamespace):
    """A stand-in that the scheduler can keep in sets, as it does with its own."""

    __hash__ = object.__hash__


def _request(adapter):
    lora = adapter and SimpleNamespace(name=adapter)
    return _Request(
        lora_request=lora,
        spec_token_ids=[],
        num_computed_tokens=10,
        num_in_flight_tokens=0,
        num_tokens=11,
        num_output_placeholders=0,
        is_prefill_chunk=False,
        use_structured_output=False,
        is_finished=lambda: False,
    )


def _scheduler(name, adapters):
    from lora_spec.policy import vllm_scheduler
    from lora_spec.policy.control import DepthControl
    from lora_spec.policy.counters import AdapterCounters

    scheduler = object.__new__(getattr(vllm_scheduler, name))
    scheduler.num_spec_tokens = 4
    scheduler.num_sampled_tokens_per_step = 1
    scheduler.defer_block_free = scheduler.use_v2_model_runner = False
    scheduler._inflight_prefills = set()
    scheduler.structured_output_manager = SimpleNamespace(validate_tokens=lambda request, tokens: tokens)
    scheduler.requests = {str(i): _request(adapter) for i, adapter in enumerate(adapters)}
    scheduler._control = DepthControl(None, max_depth=4, counters=AdapterCounters())
    scheduler._by_hand = scheduler._cache = None
    return scheduler


def _schedule(scheduler, allowed=4):
    output = SimpleNamespace(
        num_scheduled_tokens=dict.fromkeys(scheduler.requests, 1),
        num_spec_tokens_to_schedule=allowed,
        scheduled_spec_decode_tokens={},
        has_structured_output_requests=False,
        pending_structured_output_tokens=False,
    )
    scheduler._update_after_schedule(output)
    return output.num_spec_tokens_to_schedule


def _drafts_verified_next(scheduler, deepest):
    """Return the tokens that each request's next step verifies, drafts having come back where vLLM sends them."""
    if type(scheduler).__name__ == "DepthScheduler":
        ids = list(scheduler.requests)
        drafted = SimpleNamespace(req_ids=ids, draft_token_ids=[list(range(100, 100 + deepest)) for _ in ids])
        scheduler.update_draft_token_ids(drafted)
    return [len(request.spec_token_ids) for request in scheduler.requests.values()]


@pytest.mark.parametrize("name", ["DepthScheduler", "DepthAsyncScheduler"])
@pytest.mark.parametrize(
    ("adapters", "default", "deepest", "verified"),
    [
        ([None, "json", "upper"], 3, 3, [3, 1, 0]),
        (["json", "upper"], 3, 1, [1, 0]),
        (["upper"], 3, 0, [0]),
        ([None, "other"], 0, 0, [0, 0]),
        ([None, "json"], None, 4, [4, 1]),
    ],
)
def test_a_step_drafts_for_its_deepest_request_and_verifies_each_to_its_own(name, adapters, default, deepest, verified):
    scheduler = _scheduler(name, adapters)
    scheduler.set_speculation_depth(default, DEPTHS)
    assert _schedule(scheduler) == deepest
    assert _drafts_verified_next(scheduler, deepest) == verified


@pytest.mark.parametrize("name", ["DepthScheduler", "DepthAsyncScheduler"])
def test_depths_never_exceed_what_vllm_itself_allows_a_step(name):
    scheduler = _scheduler(name, [None, "json"])
    assert _schedule(scheduler, allowed=2) == 2
    assert _drafts_verified_next(scheduler, 2) == [2, 2]


@pytest.mark.parametrize("name", ["DepthScheduler", "DepthAsyncScheduler"])
def test_none_restores_the_maximum_and_forgets_exceptions(name):
    scheduler = _scheduler(name, ["json"])
    scheduler.set_speculation_depth(0, DEPTHS)
    scheduler.set_speculation_depth(None)
    assert _schedule(scheduler) == 4
    assert _drafts_verified_next(scheduler, 4) == [4]


@pytest.mark.parametrize(("default", "exceptions"), [(5, {}), (-1, {}), (2, {"json": 5})])
def test_depths_outside_the_engines_range_are_refused_and_change_nothing(default, exceptions):
    scheduler = _scheduler("DepthScheduler", ["json"])
    scheduler.set_speculation_depth(1)
    with pytest.raises(ValueError, match="outside"):
        scheduler.set_speculation_depth(default, exceptions)
    assert _schedule(scheduler) == 1
