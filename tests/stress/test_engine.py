"""The simulated engine against closed forms, balances and invariances."""

from dataclasses import replace

import numpy as np
import pytest
from stress_cases import COST, RATES, SERVER, ByAdapter, PlainCost, adapters, poisson, requests

from lora_spec.stress.simulator.fleet import Fleet, simulate

BASE = adapters({None: (1.0, 1.0, 1.0)})


def _run(schedule, *, server=SERVER, cost=COST, served=None, chooser=None, seed=0, **more):
    fleet = Fleet(server, cost, served or adapters(RATES))
    return simulate(schedule, fleet, chooser or ByAdapter, seed=seed, **{"drain_s": 1e6} | more)


def _mixed(num=300, rate=2.0, seed=1, output=20):
    rng = np.random.default_rng(seed)
    names = [list(RATES)[i] for i in rng.integers(len(RATES), size=num)]
    return requests(poisson(rate, num, seed), adapter=names, prompt=16, output=output)


def test_one_request_at_a_time_waits_as_the_m_d_1_queue_says():
    service_s, load = 0.02, 0.7
    one = replace(SERVER, max_num_seqs=1)
    run = _run(requests(poisson(load / service_s, 40_000)), server=one, cost=PlainCost(step=20), served=BASE)
    waits = [record.first_token_s - record.due_s - service_s for record in run.records]
    assert np.mean(waits) == pytest.approx(load / (2 * (1 - load)) * service_s, rel=0.05)


@pytest.mark.parametrize("depth", [0, 3])
def test_requests_in_the_system_are_arrival_rate_times_stay(depth):
    run = _run(_mixed(), chooser=lambda: ByAdapter(default=depth))
    times = sorted([(r.due_s, 1) for r in run.records] + [(r.last_token_s, -1) for r in run.records])
    end_s = times[-1][0]
    area = sum(step * (end_s - time) for time, step in times)
    stay_s = np.mean([record.e2el_ms for record in run.records]) / 1e3
    assert area / end_s == pytest.approx(len(run.records) / end_s * stay_s)
    assert sum(run.busy_s) <= end_s


def test_without_speculation_a_token_takes_a_step():
    # While the first is alone in its only step, the others gather; they go on together to the end.
    schedule = (*requests([0.0]), *(replace(r, index=i) for i, r in enumerate(requests([0.0] * 8, output=50), 1)))
    run = _run(schedule, cost=PlainCost(step=10, per_request=2), served=BASE)
    assert {round(record.tpot_ms, 9) for record in run.records[1:]} == {26.0}


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_where_all_is_accepted_a_step_gives_depth_plus_one_tokens(depth):
    run = _run(requests([0.0], output=1 + 60), served=BASE, chooser=lambda: ByAdapter(default=depth))
    assert run.num_steps == 1 + 60 // (depth + 1)
    assert run.counts[None].num_accepted_tokens == 60 - 60 // (depth + 1)


def test_the_last_step_is_cut_at_the_length():
    run = _run(requests([0.0], output=7), served=BASE, chooser=lambda: ByAdapter(default=3))
    assert run.records[0].num_output_tokens == 7
    assert run.num_steps == 3


@pytest.mark.parametrize("is_learning", [False, True])
def test_acceptance_counts_come_to_the_acceptance_given(is_learning):
    schedule = _mixed(400, output=200)
    run = _run(schedule, chooser=lambda: ByAdapter(default=3, is_learning=is_learning))
    for name, rates in RATES.items():
        counts = run.counts[name]
        assert counts.acceptance_rate_per_pos == pytest.approx(rates, abs=4 * 0.5 / counts.num_drafts**0.5)
        assert sum(counts.num_accepted_tokens_per_pos) == counts.num_accepted_tokens


def test_asking_at_every_step_gives_what_taking_steps_at_once_gives():
    flat = replace(COST, per_context=0.0)
    runs = [_run(_mixed(), cost=flat, chooser=lambda x=x: ByAdapter(default=2, is_learning=x)) for x in (False, True)]
    for one, other in zip(*(run.records for run in runs), strict=True):
        assert one.last_token_s == pytest.approx(other.last_token_s)
        assert one.first_token_s == pytest.approx(other.first_token_s)
    assert runs[0].counts == runs[1].counts


def test_a_context_that_grows_within_a_stretch_is_right_to_a_part_in_a_thousand():
    heavy = replace(COST, per_context=0.02)
    runs = [_run(_mixed(), cost=heavy, chooser=lambda x=x: ByAdapter(default=2, is_learning=x)) for x in (False, True)]
    means = [np.mean([record.e2el_ms for record in run.records]) for run in runs]
    assert means[0] == pytest.approx(means[1], rel=1e-3)


def test_half_the_costs_at_twice_the_rate_take_half_the_time():
    whole = _mixed()
    halved = tuple(replace(request, arrival_s=request.arrival_s / 2) for request in whole)
    one = _run(whole, chooser=lambda: ByAdapter(default=2))
    other = _run(halved, cost=COST.times(0.5), chooser=lambda: ByAdapter(default=2))
    for slow, fast in zip(one.records, other.records, strict=True):
        assert fast.last_token_s == pytest.approx(slow.last_token_s / 2)


def test_other_names_of_the_adapters_change_nothing():
    new = {"good": "a", "fair": "b", "bad": "c", None: None}
    whole = _mixed()
    renamed = tuple(replace(request, adapter=new[request.adapter]) for request in whole)
    depths = {"good": 3, "fair": 1, "bad": 0}
    one = _run(whole, chooser=lambda: ByAdapter(depths))
    served = adapters({new[name]: rates for name, rates in RATES.items()})
    other = _run(renamed, served=served, chooser=lambda: ByAdapter({new[k]: d for k, d in depths.items()}))
    assert [(r.first_token_s, r.last_token_s) for r in one.records] == [
        (r.first_token_s, r.last_token_s) for r in other.records
    ]


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    runs = [_run(_mixed(), chooser=lambda: ByAdapter(default=3), seed=seed) for seed in (4, 4, 5)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_every_request_ends_or_is_marked():
    flood = requests([0.0] * 200, adapter=[name for name in RATES for _ in range(50)], prompt=64, output=60)
    run = _run(flood, chooser=lambda: ByAdapter(default=3), drain_s=5.0)
    assert [record.index for record in run.records] == list(range(200))
    failed = [record for record in run.records if record.error]
    assert 0 < len(failed) < 200
    assert all(record.num_output_tokens == 60 for record in run.records if not record.error)
    assert all(record.num_output_tokens < 60 and "given up" in record.error for record in failed)
    assert all((record.num_output_tokens == 0) == (record.first_token_s is None) for record in run.records)
    assert all(record.last_token_s <= 5.0 for record in run.records if record.last_token_s)


def test_prompts_are_computed_in_chunks_of_the_token_budget():
    server = replace(SERVER, max_num_batched_tokens=100, draft_slots=1)
    run = _run(requests([0.0], prompt=300), server=server, cost=PlainCost(step=10, per_prefill=1), served=BASE)
    assert run.num_steps == 4  # 99 + 99 + 99 + 3
    assert run.records[0].ttft_ms == pytest.approx(4 * 10 + 300)


def test_a_long_prompt_leaves_room_for_those_who_run():
    server = replace(SERVER, max_num_batched_tokens=100)
    schedule = requests([0.0, 0.001], prompt=300, output=2)
    run = _run(schedule, server=server, cost=PlainCost(step=10), served=BASE)
    # Chunks of 100, 100, 100; then 99 beside the other's one token, 100, 100, 1; then its own token.
    assert run.num_steps == 3 + 4 + 1
    assert run.records[0].last_token_s == pytest.approx(0.04)


def test_a_request_whose_adapter_finds_no_slot_lets_later_ones_pass():
    one_slot = replace(SERVER, max_loras=1, max_cpu_loras=4)
    schedule = requests([0.0, 0.001, 0.002, 0.003], adapter=["good", "bad", "good", None], output=10)
    run = _run(schedule, server=one_slot)
    first = [record.first_token_s for record in run.records]
    assert first[2] == first[3] < run.records[0].last_token_s
    assert first[1] > max(record.last_token_s for i, record in enumerate(run.records) if i != 1)


def test_no_more_requests_run_than_places():
    run = _run(_mixed(rate=50.0), server=replace(SERVER, max_num_seqs=3))
    times = sorted([(r.first_token_s, 1) for r in run.records] + [(r.last_token_s, -1) for r in run.records])
    assert np.cumsum([step for _, step in times]).max() <= 3


def test_the_least_recently_used_adapter_goes_and_comes_back_at_the_price_of_its_rank():
    served = adapters(dict.fromkeys("abc", (0.5,)), rank=16)
    cost = PlainCost(step=10, load=3)
    schedule = requests([0, 10, 20, 30, 40], adapter=["a", "b", "a", "c", "b"])
    for slots, misses in ((2, [1, 1, 0, 1, 1]), (3, [0] * 5)):
        # Loaded in order a, b, c: with two places b and c are there at the start, and b is the older one.
        server = replace(SERVER, max_loras=slots, max_cpu_loras=slots)
        run = _run(schedule, server=server, cost=cost, served=served)
        assert [round(r.ttft_ms) for r in run.records] == [10 + 48 * miss for miss in misses]
        assert run.num_adapter_loads == sum(misses)


def test_main_memory_gives_an_adapter_back_at_a_share_of_the_price():
    served = adapters(dict.fromkeys("ab", (0.5,)), rank=10)
    server = replace(SERVER, max_loras=1, max_cpu_loras=2)
    run = _run(requests([0, 10], adapter=["a", "b"]), server=server, cost=PlainCost(step=10, load=3), served=served)
    assert [round(r.ttft_ms) for r in run.records] == [13, 13]
    assert (run.num_adapter_loads, run.num_cached_adapter_loads) == (0, 2)


def test_a_policy_that_drafts_deeper_at_small_loads_is_followed_in_mid_request():
    class BySize(ByAdapter):
        def begin_step(self, batch_size, now_s):
            self._default = 3 if batch_size == 1 else 0
            return self._default

    schedule = requests([0.0, 0.025], output=41)
    run = _run(schedule, cost=PlainCost(step=10), served=BASE, chooser=BySize)
    # Alone: prompt and two steps of 4 tokens; together one token per step until the first ends; then alone again.
    together = (41 - 1 - 8 - 0) * 10
    assert run.records[0].last_token_s == pytest.approx((30 + together) / 1e3, abs=0.011)
    assert run.records[1].num_output_tokens == 41
    assert run.counts[None].acceptance_rate == 1.0


def test_requests_of_the_warm_up_are_served_and_not_counted():
    schedule = _mixed()
    all_of_it = _run(schedule, chooser=lambda: ByAdapter(default=2))
    late = _run(schedule, chooser=lambda: ByAdapter(default=2), warmup_s=schedule[150].arrival_s)
    assert late.records == all_of_it.records
    assert sum(c.num_drafts for c in late.counts.values()) < sum(c.num_drafts for c in all_of_it.counts.values())
