from collections import Counter
from itertools import pairwise

import pytest

from lora_spec.errors import ConfigError
from lora_spec.traffic.schedule import schedule_requests

TRAFFIC = {
    "patterns": [{"kind": "uniform", "name": "uniform"}, {"kind": "zipf", "name": "zipf", "exponent": 1.0}],
    "prompt_lengths": [{"num_prompt_tokens": 32, "share": 0.75}, {"num_prompt_tokens": 256, "share": 0.25}],
    "output_tokens": 48,
    "duration_s": 2000.0,
}
ADAPTERS = (None, "sql", "json", "french")


def _schedule(pattern="uniform", seed=0, rate=5.0, adapters=ADAPTERS, **changes):
    return schedule_requests(TRAFFIC | changes, pattern, adapters=adapters, rate_req_s=rate, seed=seed)


def test_shares_and_lengths_come_out_as_asked():
    found = _schedule()
    counts = Counter(request.adapter for request in found)
    assert all(counts[name] / len(found) == pytest.approx(1 / 4, abs=0.02) for name in ADAPTERS)
    assert sum(r.num_prompt_tokens == 32 for r in found) / len(found) == pytest.approx(0.75, abs=0.02)
    assert {request.num_output_tokens for request in found} == {48}


def test_the_hot_adapter_is_drawn_and_not_the_first_of_the_list():
    hottest = {Counter(r.adapter for r in _schedule("zipf", seed)).most_common(1)[0][0] for seed in range(20)}
    assert hottest == set(ADAPTERS)


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    assert _schedule(seed=3) == _schedule(seed=3)
    assert _schedule(seed=3) != _schedule(seed=4)


def test_another_mix_of_lengths_moves_no_arrival_and_no_adapter():
    one, other = _schedule(), _schedule(prompt_lengths=[{"num_prompt_tokens": 8, "share": 1.0}])
    assert [(r.arrival_s, r.adapter) for r in one] == [(r.arrival_s, r.adapter) for r in other]


def test_requests_are_numbered_by_arrival():
    found = _schedule("zipf")
    assert [request.index for request in found] == list(range(len(found)))
    assert all(a.arrival_s <= b.arrival_s for a, b in pairwise(found))


def test_an_unknown_pattern_and_no_adapter_are_refused():
    with pytest.raises(ConfigError, match="bursty"):
        _schedule("bursty")
    with pytest.raises(ConfigError, match="0 adapters"):
        _schedule(adapters=())


@pytest.mark.parametrize("rate", [1e5, 1e12])
def test_more_requests_than_memory_holds_are_refused_before_any_is_drawn(rate):
    traffic = TRAFFIC | {"duration_s": 60.0}
    with pytest.raises(ConfigError, match="lower the rate"):
        schedule_requests(traffic, TRAFFIC["patterns"][0]["name"], adapters=["a"], rate_req_s=rate, seed=0)


def test_bursts_too_short_to_be_drawn_one_by_one_are_refused():
    pattern = {"kind": "bursty", "name": "b", "burst_factor": 4.0, "mean_burst_s": 1e-12, "burst_share": 0.2}
    with pytest.raises(ConfigError, match="lengthen mean_burst_s"):
        schedule_requests(TRAFFIC | {"patterns": [pattern]}, "b", adapters=["a"], rate_req_s=1.0, seed=0)
