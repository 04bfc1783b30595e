"""What a live run is to do: the order of its trials, who is in traffic, what each policy's file says."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from live_cases import FLEET, LENGTHS, TRAFFIC, planned, served

from lora_spec.config import load_tier
from lora_spec.config.traffic_live import LiveConfig
from lora_spec.errors import ConfigError
from lora_spec.policy.policy_file import parse_policy
from lora_spec.stress.live_choice import Candidate, choose_adapters
from lora_spec.stress.live_plan import expected_s, live_traffic, places, plan_trials, slots
from lora_spec.stress.live_policies import Mix, best_static_depth, live_policy
from lora_spec.traffic.schedule import schedule_requests

ROOT = Path(__file__).parents[2]
LIVE = TRAFFIC["live"]


def test_every_scenario_meets_every_policy_once_per_seed():
    found = [place for of_mode in places(LIVE).values() for place in of_mode]
    assert len(found) == len(LIVE["scenarios"]) * len(LIVE["policies"]) * len(LIVE["seeds"])
    assert len({place.name for place in found}) == len(found)


def test_rounds_are_finished_one_by_one_and_their_orders_are_drawn_anew():
    for of_mode in places({**LIVE, "seeds": list(range(8))}).values():
        assert [place.seed for place in of_mode] == sorted(place.seed for place in of_mode)
        orders = [tuple(p.policy for p in of_mode if p.seed == seed) for seed in range(8)]
        assert len(set(orders)) > 4
    assert places(LIVE) == places(LIVE)
    assert places(LIVE) != places({**LIVE, "order_seed": 1})


def test_no_policy_is_always_first_in_its_round():
    of_mode = next(iter(places({**LIVE, "seeds": list(range(200))}).values()))
    firsts = Counter(b.policy for a, b in pairwise([None, *of_mode]) if a is None or a.seed != b.seed)
    assert set(firsts) == set(LIVE["policies"])
    assert max(firsts.values()) < 2 * 200 / len(LIVE["policies"])


def test_policies_of_a_round_meet_the_same_requests_and_rounds_do_not():
    by_seed = {}
    for item in planned()["warm"]:
        by_seed.setdefault((item.place.pattern, item.place.seed), set()).add(item.trial.requests)
    assert {len(requests) for requests in by_seed.values()} == {1}
    assert len(set.union(*by_seed.values())) == len(by_seed)


def test_requests_are_those_of_the_traffic_room_at_the_live_lengths():
    item = planned()["warm"][0]
    drawn = schedule_requests(
        live_traffic(TRAFFIC),
        item.place.pattern,
        adapters=sorted(LENGTHS),
        rate_req_s=item.place.request_rate_req_s,
        seed=item.place.seed,
    )
    assert item.trial.requests == drawn
    assert {request.num_output_tokens for request in drawn} == {LIVE["output_tokens"]}
    assert max(request.arrival_s for request in drawn) <= LIVE["duration_s"]


@pytest.mark.parametrize(
    "change",
    [
        {"inputs_sha256": "other"},
        {"fleet": {**FLEET, "adapters": {**FLEET["adapters"], "good": [1, 1]}}},
        {"adapters": ("bad", "good")},
    ],
)
def test_a_trial_of_other_inputs_is_another_trial(change):
    before = {item.trial.name: item.trial.inputs_sha256 for item in planned()["warm"]}
    after = {item.trial.name: item.trial.inputs_sha256 for item in planned(**change)["warm"]}
    assert any(before[name] != after[name] for name in before)
    assert before == {item.trial.name: item.trial.inputs_sha256 for item in planned()["warm"]}


def test_slots_are_a_share_of_the_adapters_and_one_at_least():
    assert slots(TRAFFIC, "warm", 8) == 8
    assert slots(TRAFFIC, "limited", 8) == 2
    assert slots(TRAFFIC, "limited", 1) == 1


@pytest.mark.parametrize(("tier", "most_s"), [("mini", 90), ("cpu", 40 * 60)])
def test_a_tiers_live_run_fits_its_budget(tier, most_s):
    assert expected_s(load_tier(ROOT, tier).traffic.to_dict()) <= most_s


@pytest.mark.parametrize("name", LIVE["policies"])
def test_an_engine_takes_every_policys_file(name):
    files = [item.policy for of_mode in planned().values() for item in of_mode if item.place.policy == name]
    for file in files:
        policy = parse_policy(file.data, max_depth=3, known_adapters=sorted(LENGTHS))
        assert policy.loads == parse_policy(files[0].data, max_depth=3).loads
        depths = {policy.depths_of(adapter) for adapter in LENGTHS}
        if name == "policy_file_live":
            assert depths == {(0, 0), (2, 1), (3, 3)}
            assert policy.live is not None
        else:
            assert len(depths) == 1
            assert policy.live is None


def _mix(rate, lengths=LENGTHS):
    return Mix(list(lengths.values()), rate, 20, max_batch_size=8)


def _step_ms(depth, batch):
    return 10.0 + 2.0 * depth + batch * (1.0 + depth)


def test_the_best_static_depth_is_that_of_a_search_over_batches():
    """At depth K requests fill the smallest B with B >= r L W_K(B): found here on a fine grid."""
    for rate in (0.1, 1.0, 2.0, 2.6):
        times = {}
        for depth in range(4):
            per_token = np.mean([1 / lengths[depth] for lengths in LENGTHS.values()])
            batches = np.linspace(1, 8, 70_001)
            wanted = rate * 20 * per_token * np.array([_step_ms(depth, b) for b in batches]) / 1e3
            enough = np.flatnonzero(batches >= wanted)
            times[depth] = per_token * _step_ms(depth, batches[enough[0]]) if len(enough) else np.inf
        assert best_static_depth(_mix(rate), _step_ms, range(4)) == min(times, key=times.get), rate


def test_nobody_speculates_where_nothing_is_accepted_and_all_do_where_all_is():
    none = dict.fromkeys(LENGTHS, (1.0, 1.0, 1.0, 1.0))
    every = dict.fromkeys(LENGTHS, (1.0, 2.0, 3.0, 4.0))
    assert best_static_depth(_mix(1.0, none), _step_ms, range(4)) == 0
    assert best_static_depth(_mix(1.0, every), _step_ms, range(4)) == 3


def test_beyond_saturation_throughput_decides():
    def cheap_when_deep_but_small(depth, batch):
        return 10.0 if depth == 1 else 9.0 + batch

    assert best_static_depth(_mix(1e6), cheap_when_deep_but_small, (0, 1)) == 1


@pytest.mark.parametrize(
    ("name", "fleet", "message"),
    [
        ("policy_file", {**FLEET, "adapters": {}}, "nothing of adapter 'bad'"),
        ("policy_file_live", {**FLEET, "live": None}, "no live rule"),
        ("oracle", FLEET, "no file that an engine can be given"),
    ],
)
def test_a_policy_that_cannot_be_a_file_is_refused(name, fleet, message):
    how = served(fleet=fleet)
    with pytest.raises(ConfigError, match=message):
        live_policy(name, fleet, adapters=how.adapters, mix=_mix(1.0), step_ms=_step_ms, depths=(0, 1))


def _pool(*actions, domains=None):
    domains = domains or [f"d{i}" for i in range(len(actions))]
    return [Candidate(f"a{i}", d, action) for i, (action, d) in enumerate(zip(actions, domains, strict=True))]


def test_verdicts_are_served_in_turn_by_the_order_of_the_pool():
    pool = _pool("red", "red", "red", "amber", "green", "abstain", "red")
    assert choose_adapters(pool, 4) == ("a0", "a3", "a4", "a5")
    assert choose_adapters(pool, 6) == ("a0", "a1", "a2", "a3", "a4", "a5")


def test_no_domain_comes_twice_before_all_of_a_verdict_have_come():
    pool = _pool("red", "red", "red", domains=["x", "x", "y"])
    assert choose_adapters(pool, 2) == ("a0", "a2")
    assert choose_adapters(pool, 3) == ("a0", "a1", "a2")


def test_a_pool_that_is_too_small_is_refused():
    with pytest.raises(ConfigError, match="num_adapters is 3, and 2"):
        choose_adapters(_pool("red", "green"), 3)


def test_a_trial_of_which_nothing_would_be_counted_is_refused_before_it_runs():
    rare = [{"pattern": "uniform", "cache_mode": "warm", "request_rate_req_s": 1e-9}]
    with pytest.raises(ConfigError, match=r"no request of uniform-warm-1e-09-.* arrives after the warm-up"):
        plan_trials({**TRAFFIC, "live": {**LIVE, "scenarios": rare}}, served())


def test_rates_that_names_of_trials_do_not_tell_apart_are_refused():
    live = load_tier(ROOT, "mini").traffic.live.to_dict()
    both = [live["scenarios"][0] | {"request_rate_req_s": rate} for rate in (1.0000001, 1.0000002)]
    with pytest.raises(ValueError, match="six digits"):
        LiveConfig.model_validate(live | {"scenarios": both})
