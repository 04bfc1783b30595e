import json
import os
from pathlib import Path

import pytest
from policies import LIVE, LOADS, payload, policy_bytes

from lora_spec.policy.policy_file import MAX_BYTES, PolicyError, parse_policy, read_policy_bytes


def test_a_depth_holds_for_every_load_or_is_given_for_each():
    policy = parse_policy(policy_bytes(), max_depth=3)
    assert policy.depths_of("sql") == (1, 0)
    assert policy.depths_of("json") == (2, 2)


def test_the_base_and_adapters_without_an_entry_have_the_default():
    policy = parse_policy(policy_bytes(), max_depth=3)
    assert policy.depths_of(None) == policy.depths_of("never heard of") == (3, 1)


@pytest.mark.parametrize(("batch_size", "index"), [(1, 0), (2, 0), (3, 1), (8, 1), (1000, 1)])
def test_a_batch_has_the_first_load_that_holds_it_and_the_last_beyond_all(batch_size, index):
    assert parse_policy(policy_bytes(), max_depth=3).load_index(batch_size) == index


def test_a_shallower_policy_runs_on_a_deeper_engine_but_not_the_other_way():
    assert parse_policy(policy_bytes(), max_depth=5).max_num_speculative_tokens == 3
    with pytest.raises(PolicyError, match="started with 2"):
        parse_policy(policy_bytes(), max_depth=2)


def test_an_unknown_adapter_is_refused_where_the_served_names_are_known():
    assert parse_policy(policy_bytes(), max_depth=3, known_adapters=["json", "sql", "more"])
    with pytest.raises(PolicyError, match="'sql'"):
        parse_policy(policy_bytes(), max_depth=3, known_adapters=["json"])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        policy_bytes()[:-20],
        policy_bytes() + b"}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"kind": "policy", "kind": "policy"}',
        b"null",
        policy_bytes().replace(b"0.05", b"NaN"),
        policy_bytes({"kind": "verdict"}),
        policy_bytes({"schema_version": "2"}),
        policy_bytes({"payload": []}),
        policy_bytes(surprise=1),
        json.dumps({"kind": "policy", "schema_version": "1", "payload": {"default": 1}}).encode(),
        policy_bytes(default=4),
        policy_bytes(default=-1),
        policy_bytes(default=True),
        policy_bytes(default=1.0),
        policy_bytes(default=[1]),
        policy_bytes(default=[1, 1, 1]),
        policy_bytes(adapters={"sql": None}),
        policy_bytes(adapters=["sql"]),
        policy_bytes(loads=[]),
        policy_bytes(loads=LOADS[::-1]),
        policy_bytes(loads=[LOADS[0], LOADS[0]]),
        policy_bytes(loads=[{"max_batch_size": 2, "step_time_ratios": [1.0, 1.1]}]),
        policy_bytes(loads=[{"max_batch_size": 2, "step_time_ratios": [1.0, 0.0, 1.0, 1.0]}]),
        policy_bytes(loads=[{"max_batch_size": 0, "step_time_ratios": [1.0, 1.1, 1.2, 1.3]}], default=1, adapters={}),
        policy_bytes(live=LIVE | {"window_drafts": 1}),
        policy_bytes(live=LIVE | {"hysteresis": 2}),
        policy_bytes(live={**LIVE, "more": 1}),
    ],
)
def test_what_is_not_whole_and_sound_is_refused(data):
    with pytest.raises(PolicyError):
        parse_policy(data, max_depth=3)


def test_no_byte_can_be_cut_off_unseen():
    data = policy_bytes()
    for length in range(len(data)):
        with pytest.raises(PolicyError):
            parse_policy(data[:length], max_depth=3)


def test_live_rules_may_be_left_out():
    without = {key: value for key, value in payload().items() if key != "live"}
    data = json.dumps({"kind": "policy", "schema_version": "1", "payload": without}).encode()
    assert parse_policy(data, max_depth=3).live is None
    assert parse_policy(policy_bytes(live=None), max_depth=3).live is None


def test_pipes_folders_and_nothing_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing"):
        with pytest.raises(PolicyError, match=str(path)):
            read_policy_bytes(path)


@pytest.mark.parametrize(
    "data",
    [
        policy_bytes(live=LIVE | {"min_dwell_s": 10**400}),
        policy_bytes(loads=[{"max_batch_size": 2, "step_time_ratios": [10**400] * 4}], default=1, adapters={}),
        policy_bytes(default=10**400),
        policy_bytes(loads=[{"max_batch_size": 2, "step_time_ratios": ["x" * 10**6] * 4}], default=1, adapters={}),
        policy_bytes({"kind": "k" * 10**6}),
        policy_bytes({"schema_version": [[1]] * 10**5}),
        policy_bytes(**{"z" * 10**6: 1}),
        policy_bytes(adapters={"n" * 10**6: 9}),
        policy_bytes(loads=[LOADS[0]] * 10**4, default=1, adapters={}),
    ],
)
def test_a_refusal_is_short_however_long_the_numbers_and_texts_are(data):
    with pytest.raises(PolicyError) as told:
        parse_policy(data, max_depth=3)
    assert len(str(told.value)) < 600


def test_a_policy_that_would_hold_up_the_engine_is_too_large():
    with pytest.raises(PolicyError, match="more than"):
        parse_policy(policy_bytes() + b" " * MAX_BYTES, max_depth=3)


def test_refusing_what_is_no_file_leaves_nothing_open(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with pytest.raises(PolicyError):
            read_policy_bytes(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_path_that_no_file_can_have_is_refused():
    with pytest.raises(PolicyError, match="cannot be read"):
        read_policy_bytes(Path("a\0b"))
