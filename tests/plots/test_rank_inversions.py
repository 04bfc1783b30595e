"""Pairs whose order by speedup contradicts their order by acceptance, counted from the table and drawn by load."""

import frames
import pytest

from lora_spec.errors import ResultError
from lora_spec.plots.rank_disagreement import count_inversions
from lora_spec.plots.registry import FIGURES
from lora_spec.plots.style import BLUE, MUTED, PURPLE


def _drawn(frame):
    """Return the colours of the lines that lead into each column of the ladder."""
    ladder = FIGURES["rank_disagreement"].draw(frame).axes[0]
    colors = {}
    for line in ladder.get_lines():
        x = list(line.get_xdata())
        if len(x) == 2 and x[0] != x[1]:
            colors.setdefault(int(x[1]), set()).add(line.get_color())
    return colors


def test_each_inversion_is_counted_once():
    frame = frames.rank_disagreement()
    at_load = frame[frame["load_batch_size"] == 16]
    found = count_inversions(at_load)
    assert found.num_pairs == 15
    assert (found.num_inverted, found.num_clear) == (at_load["num_won"].sum(), at_load["num_clear_lost"].sum())
    assert 0 < found.num_clear <= found.num_inverted


def test_what_is_won_must_be_lost_by_another():
    frame = frames.rank_disagreement()
    frame.loc[0, "num_clear_won"] += 1
    with pytest.raises(ResultError, match="batch 1: inversions won and lost differ"):
        FIGURES["rank_disagreement"].draw(frame)


def test_a_colour_is_shown_only_at_the_load_where_an_inversion_is_clear():
    frame = frames.rank_disagreement()
    columns = ["num_clear_won", "num_clear_lost"]
    frame.loc[frame["load_batch_size"] != 16, columns] = 0
    assert _drawn(frame) == {1: {MUTED}, 2: {MUTED}, 3: {MUTED, BLUE, PURPLE}}


def test_an_adapter_that_is_off_shows_no_number():
    frame = frames.rank_disagreement().assign(num_speculative_tokens=0)
    ladder = FIGURES["rank_disagreement"].draw(frame).axes[0]
    assert {text.get_text() for text in ladder.texts} == {"off"}
