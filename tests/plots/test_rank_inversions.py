"""Pairs whose order by speedup contradicts their order by acceptance."""

import pandas as pd

from lora_spec.plots.rank_disagreement import count_inversions


def _at_load(acceptance, speedup, half_width) -> pd.DataFrame:
    frame = pd.DataFrame({"acceptance_length": acceptance, "speedup": speedup})
    frame["adapter"] = [f"a{i}" for i in range(len(frame))]
    return frame.assign(lower=frame["speedup"] - half_width, upper=frame["speedup"] + half_width)


def test_equal_orders_have_no_inversion():
    found = count_inversions(_at_load([1.1, 1.5, 2.0, 2.2], [0.9, 1.0, 1.2, 1.3], 0.0))
    assert (found.num_pairs, found.num_inverted, found.resolved) == (6, 0, ())


def test_opposite_orders_invert_every_pair():
    found = count_inversions(_at_load([1.1, 1.5, 2.0, 2.2], [1.3, 1.2, 1.0, 0.9], 0.0))
    assert found.num_inverted == found.num_pairs == len(found.resolved) == 6


def test_intervals_that_touch_leave_an_inversion_unresolved():
    assert count_inversions(_at_load([1.0, 2.0], [1.2, 1.0], 0.1)).resolved == ()
    assert count_inversions(_at_load([1.0, 2.0], [1.2, 1.0], 0.09)).resolved == (("a0", "a1"),)


def test_ties_are_no_inversion():
    assert count_inversions(_at_load([1.0, 1.0, 2.0], [1.3, 1.0, 1.3], 0.0)).num_inverted == 0
