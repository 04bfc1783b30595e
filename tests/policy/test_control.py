import itertools

import pytest
from policies import LIVE, policy_bytes

from lora_spec.policy.control import DepthControl
from lora_spec.policy.watched_file import WatchedPolicy


class _Counters:
    """Keeps what it is told."""

    def __init__(self):
        self.drafts, self.depths, self.changes, self.policies = [], {}, [], []

    def observe(self, *counts):
        self.drafts.append(counts)

    def show_depth(self, adapter, depth):
        self.depths[adapter] = depth

    def count_change(self, *change):
        self.changes.append(change)

    def count_policies(self, *counts):
        self.policies.append(counts)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "policy.json"
    path.write_bytes(policy_bytes())
    return path


def _control(path, max_depth=4):
    ticks = itertools.count()
    watched = path and WatchedPolicy(path, max_depth=max_depth, poll_s=0.0)
    return DepthControl(watched, max_depth=max_depth, counters=_Counters(), clock_s=lambda: next(ticks) / 10)


def _replace(path, data):
    path.with_suffix(".new").write_bytes(data)
    path.with_suffix(".new").replace(path)


def test_without_a_policy_all_run_at_the_engines_depth_and_are_counted():
    control = _control(None)
    control.begin_step(8)
    assert control.depth("sql") == control.depth(None) == 4
    control.observe("sql", 4, 2)
    assert control._counters.drafts == [("sql", 4, 2)]


def test_a_broken_file_is_said_at_the_start_before_any_request(path, caplog):
    path.write_bytes(policy_bytes()[:40])
    assert _control(path)._counters.policies == [(0, 1)]
    assert len(caplog.records) == 1
    path.write_bytes(policy_bytes())
    assert _control(path)._counters.policies == [(1, 0)]


def test_the_depth_follows_the_load(path):
    control = _control(path)
    control.begin_step(1)
    assert (control.depth("sql"), control.depth("json"), control.depth(None)) == (1, 2, 3)
    control.begin_step(8)
    assert (control.depth("sql"), control.depth("json"), control.depth(None)) == (0, 2, 1)
    assert control._counters.depths == {"sql": 0, "json": 2, None: 1}


def test_a_bad_file_is_counted_once_and_changes_nothing(path):
    control = _control(path)
    control.begin_step(1)
    _replace(path, b"{")
    for _ in range(5):
        control.begin_step(1)
    assert control.depth("sql") == 1
    assert control._counters.policies == [(1, 0), (0, 1)]


def _lose(control, adapter, steps=200):
    for _ in range(steps):
        control.begin_step(1)
        if depth := control.depth(adapter):
            control.observe(adapter, depth, 0)


def test_an_adapter_is_demoted_by_itself_and_the_others_stay(path):
    control = _control(path)
    _lose(control, "json")
    assert ("json", "demoted") in control._counters.changes
    assert (control.depth("json"), control.depth("sql"), control.depth(None)) == (0, 1, 3)


def test_a_new_policy_forgets_only_adapters_to_which_it_says_something_else(path):
    control = _control(path)
    _lose(control, "json")
    _lose(control, "sql")
    assert (control.depth("json"), control.depth("sql")) == (0, 0)
    _replace(path, policy_bytes(adapters={"sql": [1, 0], "json": 1}))
    control.begin_step(1)
    assert (control.depth("json"), control.depth("sql")) == (1, 0)
    _replace(path, policy_bytes(adapters={"sql": [1, 0], "json": 1}, live=LIVE | {"window_drafts": 99}))
    control.begin_step(1)
    assert (control.depth("json"), control.depth("sql")) == (1, 1)


def test_without_live_rules_nothing_is_ever_demoted(path):
    _replace(path, policy_bytes(live=None))
    control = _control(path)
    _lose(control, "json", steps=500)
    assert control.depth("json") == 2
    assert len(control._counters.drafts) == 500


def test_drafts_of_an_earlier_deeper_policy_are_counted_and_not_judged(path):
    control = _control(path)
    control.begin_step(1)
    control.observe("json", 4, 1)
    assert control._counters.drafts == [("json", 4, 1)]
