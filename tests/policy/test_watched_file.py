import logging
import os

import pytest
from policies import policy_bytes

from lora_spec.policy.watched_file import WatchedPolicy


@pytest.fixture
def path(tmp_path):
    return tmp_path / "policy.json"


def _replace(path, data):
    """Put a file in the place of another as one must: whole, by a rename."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


def test_a_change_comes_into_force_at_the_next_look_and_no_sooner(path):
    path.write_bytes(policy_bytes())
    watched = WatchedPolicy(path, max_depth=3, poll_s=1.0)
    assert watched.refresh(0.0)
    _replace(path, policy_bytes(default=2))
    assert not watched.refresh(0.5)
    assert watched.policy.default == (3, 1)
    assert watched.refresh(1.0)
    assert watched.policy.default == (2, 2)
    assert not watched.refresh(2.0)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(policy_bytes()[:50]),
        lambda path: path.write_bytes(policy_bytes(default=9)),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.unlink(), path.symlink_to(path)),
        lambda path: path.write_bytes(policy_bytes().replace(b"1.25", b"1" + b"0" * 400)),
        lambda path: os.truncate(path, 100 << 20),
        lambda path: _replace(path, policy_bytes(adapters={"stranger": 1})),
    ],
)
def test_a_bad_file_leaves_the_last_good_policy_with_one_log_line_and_one_count(path, spoil, caplog):
    path.write_bytes(policy_bytes())
    watched = WatchedPolicy(path, max_depth=3, known_adapters=["sql", "json"], poll_s=1.0)
    watched.refresh(0.0)
    good = watched.policy
    spoil(path)
    with caplog.at_level(logging.WARNING, logger="vllm.lora_spec.policy"):
        for now in range(1, 10):
            assert not watched.refresh(float(now))
    assert watched.policy is good
    assert (watched.num_loaded, watched.num_refused) == (1, 1)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "stays in force" in caplog.text


def test_a_file_that_was_seen_half_written_comes_into_force_once_it_is_whole(path):
    path.write_bytes(policy_bytes()[:50])
    watched = WatchedPolicy(path, max_depth=3, poll_s=0.0)
    assert not watched.refresh(0.0)
    assert watched.policy is None
    path.write_bytes(policy_bytes())
    assert watched.refresh(1.0)


def test_a_file_that_is_missing_from_the_start_is_told(path, caplog):
    watched = WatchedPolicy(path, max_depth=3)
    with caplog.at_level(logging.WARNING, logger="vllm.lora_spec.policy"):
        watched.refresh(0.0)
    assert watched.num_refused == 1
    assert "engine's depth" in caplog.text


def test_the_same_policy_written_again_is_no_change(path):
    path.write_bytes(policy_bytes())
    watched = WatchedPolicy(path, max_depth=3, poll_s=0.0)
    assert watched.refresh(0.0)
    _replace(path, policy_bytes())
    assert not watched.refresh(1.0)
    assert watched.num_loaded == 2


def test_a_change_in_place_that_keeps_size_and_time_comes_into_force(path):
    path.write_bytes(policy_bytes(default=3))
    watched = WatchedPolicy(path, max_depth=3, poll_s=1.0)
    assert watched.refresh(0.0)
    watched.refresh(1.0)
    status = path.stat()
    path.write_bytes(policy_bytes(default=2))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert watched.refresh(2.0)
    assert watched.policy.default == (2, 2)


def test_a_second_write_within_one_tick_of_the_clock_comes_into_force(path, monkeypatch):
    path.write_bytes(policy_bytes(default=3))
    watched = WatchedPolicy(path, max_depth=3, poll_s=1.0)
    stamp = watched._stamp()
    monkeypatch.setattr(watched, "_stamp", lambda: stamp)
    assert watched.refresh(0.0)
    path.write_bytes(policy_bytes(default=2))
    assert watched.refresh(1.0)
    assert watched.policy.default == (2, 2)
    assert (watched.num_loaded, watched.num_refused) == (2, 0)


def test_a_fault_of_the_reader_itself_does_not_end_the_engine(path, monkeypatch, caplog):
    path.write_bytes(policy_bytes())
    watched = WatchedPolicy(path, max_depth=3, poll_s=0.0)
    watched.refresh(0.0)

    def fails(*_, **__):
        raise OverflowError("int too large")

    monkeypatch.setattr("lora_spec.policy.watched_file.parse_policy", fails)
    _replace(path, policy_bytes(default=2))
    assert not watched.refresh(1.0)
    assert (watched.policy.default, watched.num_refused) == ((3, 1), 1)
    assert "OverflowError" in caplog.text
