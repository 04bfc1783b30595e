"""Seconds by part, on the wall and on the cores."""

import pytest

from lora_spec.engines.stopwatch import Stopwatch


def test_parts_are_told_in_the_order_of_their_first_entry_and_added_up():
    watch = Stopwatch()
    for name in ("write", "read", "write"):
        with watch.part(name):
            sum(range(1000))
    first = watch.cost_by_part()
    assert list(first) == ["write", "read"]
    with watch.part("read"):
        sum(range(1000))
    assert watch.cost_by_part()["read"].wall_s > first["read"].wall_s
    assert watch.cost_by_part()["write"] == first["write"]


def test_a_part_that_fails_has_cost_its_time_too():
    watch = Stopwatch()
    with pytest.raises(ValueError, match="broken"), watch.part("write"):
        raise ValueError("broken")
    assert watch.cost_by_part()["write"].wall_s > 0
