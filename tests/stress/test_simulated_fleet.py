from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from stress_cases import COST, SERVER, ByAdapter, adapters, poisson, requests

from lora_spec.errors import ConfigError
from lora_spec.stress.simulator.engine import Engine
from lora_spec.stress.simulator.fleet import Fleet, simulate
from lora_spec.stress.simulator.routers import ROUTERS, AdapterAffinity, LeastLoaded, make_router
from lora_spec.stress.simulator.settings import ServerSettings, SimulatedAdapter

NAMES = [f"a{i}" for i in range(40)]
SERVED = adapters(dict.fromkeys(NAMES, (0.6, 0.4)))


def _schedule(num=400, rate=8.0):
    rng = np.random.default_rng(0)
    return requests(poisson(rate, num), adapter=[NAMES[i] for i in rng.integers(40, size=num)], prompt=16, output=30)


def _run(router, num_engines=4, schedule=None):
    fleet = Fleet(SERVER, COST, SERVED, num_engines, router)
    return simulate(schedule or _schedule(), fleet, lambda: ByAdapter(default=2), seed=0, drain_s=1e6)


def _engines(num):
    by_name = {adapter.name: adapter for adapter in SERVED}
    return [Engine(SERVER, COST, by_name, ByAdapter()) for _ in range(num)]


@pytest.mark.parametrize("router", ROUTERS)
def test_every_request_comes_out_once(router):
    run = _run(router)
    assert [record.index for record in run.records] == list(range(400))
    assert all(record.error is None and record.num_output_tokens == 30 for record in run.records)


@pytest.mark.parametrize("router", ROUTERS)
def test_one_engine_is_served_alike_by_every_router(router):
    assert _run(router, 1, _schedule(60, 1.0)) == _run("round_robin", 1, _schedule(60, 1.0))


def test_round_robin_deals_in_turn():
    router = make_router("round_robin", _engines(3))
    assert [router.choose(request) for request in _schedule(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_affinity_keeps_an_adapter_on_one_engine_and_saves_loads():
    router, places = AdapterAffinity(_engines(4)), defaultdict(set)
    for request in _schedule():
        places[request.adapter].add(router.choose(request))
    assert {len(found) for found in places.values()} == {1}
    assert _run("adapter_affinity").num_adapter_loads < _run("round_robin").num_adapter_loads


def test_another_engine_moves_few_adapters():
    before, after = AdapterAffinity(_engines(4)), AdapterAffinity(_engines(5))
    moved = [before.choose(request) != after.choose(request) for request in _schedule()]
    assert np.mean(moved) < 0.4


def test_the_least_loaded_engine_has_the_fewest_open_requests():
    engines = _engines(3)
    router = LeastLoaded(engines)
    for request in _schedule(100):
        place = router.choose(request)
        for engine in engines:
            engine.run_until(request.arrival_s)
        assert engines[place].num_open == min(engine.num_open for engine in engines)
        engines[place].offer(request, np.zeros(29, dtype=np.int8))


def test_spreading_by_load_waits_less_than_in_turn_when_it_is_busy():
    long = [60 if i % 4 == 0 else 2 for i in range(400)]
    schedule = tuple(replace(r, num_output_tokens=n) for r, n in zip(_schedule(rate=12.0), long, strict=True))
    waits = {name: np.mean([r.e2el_ms for r in _run(name, 4, schedule).records]) for name in ROUTERS}
    assert waits["least_loaded"] < waits["round_robin"]


def test_luck_does_not_depend_on_the_fleet():
    one, four = _run("round_robin", 1, _schedule(100)), _run("least_loaded", 4, _schedule(100))
    assert one.counts == four.counts


def test_an_unknown_router_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match="no router 'mail'; there are round_robin, "):
        make_router("mail", _engines(1))


def test_traffic_for_an_adapter_that_nobody_serves_is_refused():
    with pytest.raises(ConfigError, match="names adapter 'stranger'"):
        _run("round_robin", 1, requests([0.0], adapter="stranger", output=5))


@pytest.mark.parametrize(
    "changes",
    [{"max_loras": 0}, {"max_loras": 9}, {"max_num_seqs": 0}, {"max_num_batched_tokens": 1, "draft_slots": 1}],
)
def test_a_server_without_room_is_refused(changes):
    with pytest.raises(ConfigError, match="max_"):
        replace(SERVER, **changes)


def test_acceptance_that_rises_with_position_is_refused():
    with pytest.raises(ConfigError, match="fractions that fall"):
        SimulatedAdapter("odd", 8, (0.5, 0.6))


def test_shared_prices_must_be_shares():
    with pytest.raises(ConfigError, match="cached_load_share"):
        ServerSettings(1, 8, 1, 1, cached_load_share=1.5)


def test_all_adapters_of_the_mix_are_counted():
    assert set(_run("least_loaded").counts) == set(Counter(request.adapter for request in _schedule()))
