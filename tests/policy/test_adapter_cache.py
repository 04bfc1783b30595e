"""Loads told from batches: by hand, and against a list that is searched from its end."""

import numpy as np
import pytest

from lora_spec.policy.adapter_cache import AdapterCache


def test_what_was_loaded_at_the_start_is_ready_and_stays_so_while_all_fit():
    cache = AdapterCache(max_loras=3, max_cpu_loras=3, preloaded=["a", "b", "c"])
    assert [cache.begin_step(batch) for batch in (["a"], ["b", "c"], ["a", "b", "c"], [])] == [{}] * 4


def test_one_slot_loads_at_every_change_and_never_within_a_batch_that_goes_on():
    cache = AdapterCache(max_loras=1, max_cpu_loras=1, preloaded=["a", "b"])
    told = [cache.begin_step([name]) for name in "bbaab"]
    assert told == [{}, {}, {"a": "load"}, {}, {"b": "load"}]


def test_what_main_memory_still_holds_is_placed_and_not_loaded():
    cache = AdapterCache(max_loras=1, max_cpu_loras=2)
    told = [cache.begin_step([name]) for name in "abab"]
    assert told == [{"a": "load"}, {"b": "load"}, {"a": "place"}, {"b": "place"}]
    assert cache.begin_step(["c"]) == {"c": "load"}
    assert cache.begin_step(["a"]) == {"a": "load"}  # c pushed out a, the least recently used


@pytest.mark.parametrize(("slots", "memory"), [(1, 1), (2, 2), (2, 4), (3, 7)])
def test_counts_are_those_of_reuse_distances(slots, memory):
    """An adapter is in a least-recently-used cache of n exactly if fewer than n others were used since."""
    names = np.random.default_rng(slots).integers(8, size=400)
    cache = AdapterCache(max_loras=slots, max_cpu_loras=memory)
    for place, name in enumerate(names):
        before = names[:place][::-1]
        seen = np.flatnonzero(before == name)
        distance = len(set(before[: seen[0]])) if len(seen) else np.inf
        expected = None if distance < slots else "place" if distance < memory else "load"
        assert cache.begin_step([f"{name}"]) == ({f"{name}": expected} if expected else {})
