import math

import numpy as np
import pytest
from policies import LIVE
from policies import payload as policy_payload

from lora_spec.policy.live import LiveAdapter, Window, best_depths
from lora_spec.policy.policy_file import LiveRule, Load

RULE = LiveRule(**LIVE)
LOADS = tuple(Load(item["max_batch_size"], tuple(item["step_time_ratios"])) for item in policy_payload()["loads"])
SMALL, LARGE = 0, 1


def _adapter(depths=(3, 1), now=0.0):
    return LiveAdapter(depths, LOADS, RULE, now)


def _run(live, accepted, *, steps, load=SMALL, start=0.0, step_s=0.1):
    """Run steps that accept the same number of drafts (as far as the depth goes); return the changes and the time."""
    changes, now = [], start
    for _ in range(steps):
        now += step_s
        depth = live.depth(load, now)
        if depth:
            changes.append(live.observe(depth, min(accepted, depth), load, now))
    return [change for change in changes if change], now


def test_mean_and_spread_are_those_of_the_steps():
    window, accepted = Window(), [0, 1, 3, 2, 0, 0, 3, 1]
    for count in accepted:
        window.add(3, count, 1.4)
    tokens = 1 + np.array(accepted)
    spread = tokens.std() / math.sqrt(len(tokens))
    assert window.margin(2.0) == pytest.approx((tokens.mean() - 2 * spread, tokens.mean() + 2 * spread))
    assert window.mean_cost == pytest.approx(1.4)


def test_acceptance_by_position_counts_only_steps_that_drafted_so_far():
    window = Window()
    window.add(1, 1, 1.1)
    window.add(3, 2, 1.4)
    window.add(3, 0, 1.4)
    assert window.acceptance_lengths(3) == pytest.approx([1.0, 1 + 2 / 3, 1 + 2 / 3 + 1 / 2, 1 + 2 / 3 + 1 / 2])


def test_the_best_depth_at_a_load_is_that_of_goodput_under_its_ceiling():
    lengths = [1.0, 1.5, 1.7, 1.75]
    assert best_depths(lengths, LOADS, (3, 3)) == (1, 1)
    assert best_depths([1.0, 1.9, 2.7, 3.5], LOADS, (3, 3)) == (3, 3)
    assert best_depths([1.0, 1.9, 2.7, 3.5], LOADS, (2, 0)) == (2, 0)
    assert best_depths([1.0, 1.0, 1.0, 1.0], LOADS, (3, 3)) == (0, 0)


def test_an_adapter_that_gains_keeps_the_depth_of_the_policy():
    live = _adapter()
    changes, now = _run(live, 3, steps=1000)
    assert changes == []
    assert live.depth(SMALL, now) == 3


def test_an_adapter_that_accepts_nothing_is_switched_off_after_one_window():
    live = _adapter()
    changes, now = _run(live, 0, steps=100)
    assert changes == ["demoted"]
    assert live.depth(SMALL, now) == live.depth(LARGE, now) == 0


def test_an_adapter_whose_first_draft_alone_is_accepted_keeps_one():
    # E_1 / 1.1 beats E_3 / 1.4 and 1; the policy's three drafts win nothing more.
    live = LiveAdapter((3, 0), (Load(2, (1.0, 1.1, 2.0, 3.0)), LOADS[1]), RULE, 0.0)
    changes, now = _run(live, 1, steps=100)
    assert changes == ["demoted"]
    assert (live.depth(SMALL, now), live.depth(LARGE, now)) == (1, 0)


def test_what_pays_at_one_load_can_lose_at_another():
    # One accepted draft in three: 2 tokens for 1.4 at the small load, for 2.4 at the large one.
    assert _run(_adapter((3, 3)), 1, steps=300, load=SMALL)[0] == []
    assert _run(_adapter((3, 3)), 1, steps=300, load=LARGE)[0] == ["demoted"]


def test_near_break_even_nothing_changes():
    rng = np.random.default_rng(0)
    for _ in range(20):
        live = _adapter()
        # 1.4 tokens a step on average where a step costs 1.4.
        changes = [live.observe(3, int(count), SMALL, 100.0 + i) for i, count in enumerate(rng.binomial(1, 0.4, 1000))]
        assert not any(changes)


def test_a_probe_brings_a_recovered_adapter_back_and_a_bad_one_not():
    live = _adapter()
    _, now = _run(live, 0, steps=100)
    changes, now = _run(live, 0, steps=700, start=now)  # 70 s: a probe is due after 60
    assert changes == ["probe failed"]
    changes, now = _run(live, 3, steps=1300, start=now)  # the next one after 120
    assert changes == ["promoted"]
    assert live.depth(SMALL, now) == 3
    assert not live.is_demoted


def test_probes_of_an_adapter_that_stays_bad_grow_rare():
    live = _adapter()
    _, now = _run(live, 0, steps=100)
    times = []
    for _ in range(100_000):
        now += 0.1
        depth = live.depth(SMALL, now)
        if depth and live.observe(depth, 0, SMALL, now):
            times.append(now)
    gaps = np.diff(times)
    assert len(times) >= 4
    assert gaps == pytest.approx([gaps[0] * 2**i for i in range(len(gaps))], rel=0.1)


def test_no_two_changes_come_closer_than_the_dwell():
    rng, live, now, times = np.random.default_rng(1), _adapter(), 0.0, []
    for step in range(50_000):
        now += 0.05
        depth = live.depth(SMALL, now)
        mood = 3 if (step // 2500) % 2 else 0  # an adapter that changes its nature all the time
        if depth and live.observe(depth, min(depth, int(rng.integers(0, mood + 1))), SMALL, now):
            times.append(now)
    assert len(times) >= 3
    assert min(np.diff(times)) >= RULE.min_dwell_s


def test_steps_that_all_look_alike_are_not_certain():
    window = Window()
    for _ in range(4):
        window.add(3, 0, 1.4)
    least, most = window.margin(2.0)
    assert least < 1.0 < most
