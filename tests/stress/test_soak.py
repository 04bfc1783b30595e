"""A soak's rounds and its verdict, by hand; the soak itself runs in tests/serving."""

import numpy as np
import pytest
from stress_cases import requests

from lora_spec.policy.policy_file import PolicyError, parse_policy
from lora_spec.stress.load_generator import ABORTED
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.server_counters import ServerFilling
from lora_spec.stress.settling import Settling
from lora_spec.stress.soak import Happened, chosen_hang_ups, judge_soak, memory_slopes_mib_per_hour, round_of
from lora_spec.stress.soak_run import broken_policies, drawn_policy

EMPTY = ServerFilling(0, 0.0)


def _record(index, error=None):
    return RequestRecord(index, "a", 8, 4, 0.0, 0.0, 0.1, 0.2, error)


def _round(index=0, records=(), *, filling=EMPTY, rss_mib=1000.0, worker_mib=0.0, problems=(), outcomes=("loaded",)):
    happened = Happened("uniform", outcomes, 2, problems)
    memory = {"python": rss_mib, "VLLM::Worker": worker_mib}
    return round_of(index, records, happened, end_s=60.0 * (index + 1), filling=filling, rss_mib=memory)


def _judge(rounds, **how):
    return judge_soak(rounds, **{"settling": None, "failure": None, "max_slope_mib_per_hour": 64.0, **how})


def test_a_round_counts_who_ended_who_hung_up_and_who_failed():
    found = _round(records=[_record(0), _record(1, ABORTED), _record(2, "status 500")])
    assert (found.num_sent, found.num_ended, found.num_aborted, found.num_failed) == (3, 1, 1, 1)
    assert found.problems == ("request failed: status 500",)


def test_whatever_is_left_in_the_server_is_a_problem():
    assert not _round().problems
    assert "2 requests left" in _round(filling=ServerFilling(2, 0.0)).problems[0]
    assert "cache" in _round(filling=ServerFilling(0, 0.01)).problems[0]


def test_a_clean_hour_of_flat_memory_passes():
    rng = np.random.default_rng(0)
    rounds = [_round(i, [_record(0)], rss_mib=1000 + 5 * rng.standard_normal()) for i in range(60)]
    found = _judge(rounds)
    assert (found["is_passed"], found["is_memory_judged"], found["num_sent"]) == (True, True, 60)


@pytest.mark.parametrize(("slope", "is_passed"), [(30.0, True), (200.0, False)])
def test_memory_that_grows_fails_a_long_run(slope, is_passed):
    rounds = [_round(i, rss_mib=1000 + slope * (i + 1) / 60) for i in range(60)]
    found = _judge(rounds)
    assert found["memory_slopes_mib_per_hour"] == pytest.approx({"python": slope, "VLLM::Worker": 0, "total": slope})
    assert found["is_passed"] == is_passed


def test_what_two_processes_gain_is_judged_together_and_told_apart():
    rounds = [_round(i, rss_mib=1000 + 40 * i / 60, worker_mib=3000 + 40 * i / 60) for i in range(60)]
    found = _judge(rounds)
    assert found["memory_slopes_mib_per_hour"] == pytest.approx({"python": 40, "VLLM::Worker": 40, "total": 80})
    assert not found["is_passed"]


def test_what_one_process_gives_back_another_may_take():
    rounds = [_round(i, rss_mib=1000 + 2 * i, worker_mib=3000 - 2 * i) for i in range(60)]
    assert _judge(rounds)["is_passed"]


def test_growth_in_the_first_rounds_counts_for_settling_is_no_part_of_them():
    rounds = [_round(i, rss_mib=1000 + 50 * min(i, 15)) for i in range(60)]
    assert not _judge(rounds)["is_passed"]


def test_a_request_that_fails_while_settling_fails_the_soak():
    settling = Settling(60.0, 9, 90, {"python": 1.0}, {"python": 2.0}, ("settling: request failed: status 500",))
    assert _judge([_round()], settling=settling)["problems"] == list(settling.problems)


def test_a_short_run_tells_its_slope_and_is_not_judged_by_it():
    rounds = [_round(i, rss_mib=1000 + 100 * i) for i in range(6)]
    found = _judge(rounds)
    assert found["memory_slopes_mib_per_hour"]["total"] > 1000
    assert (found["is_memory_judged"], found["is_passed"]) == (False, True)
    assert memory_slopes_mib_per_hour(rounds[:2]) is None


@pytest.mark.parametrize(
    ("rounds", "failure"),
    [
        ([], None),
        ([_round()], "the server has died"),
        ([_round(), _round(1, problems=("a broken policy was loaded",))], None),
    ],
)
def test_no_round_a_death_and_any_problem_fail(rounds, failure):
    assert not _judge(rounds, failure=failure)["is_passed"]


def test_hang_ups_come_in_mid_flight_and_at_their_share():
    schedule = requests(range(2000), output=20)
    found = chosen_hang_ups(schedule, 0.2, np.random.default_rng(0))
    assert 0.15 < len(found) / 2000 < 0.25
    assert set(found.values()) == set(range(1, 10))
    assert chosen_hang_ups(requests([0.0], output=1), 1.0, np.random.default_rng(0)) == {0: 1}


def test_good_policies_are_taken_and_each_kind_of_broken_one_is_refused():
    rng, names = np.random.default_rng(0), ["a", "b"]
    drawn = [parse_policy(drawn_policy(names, 3, rng), max_depth=3, known_adapters=names) for _ in range(20)]
    assert len({policy.adapters["a"] for policy in drawn}) > 5
    for data in broken_policies(names, 3, rng):
        with pytest.raises(PolicyError):
            parse_policy(data, max_depth=3, known_adapters=names)
