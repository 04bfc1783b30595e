"""Figure 1: what stands in a place, and that the worst is never hidden by the many."""

from pathlib import Path

import frames
import pytest
from matplotlib.text import Text

from lora_spec.config import load_tier
from lora_spec.errors import EvidenceError
from lora_spec.measurement.composability.cells import enumerate_cells
from lora_spec.measurement.composability.matrix import lay_over
from lora_spec.plots.composability_table import composability_table
from lora_spec.plots.registry import FIGURES
from lora_spec.plots.schemas import COMPOSABILITY
from lora_spec.plots.statuses import STATUS_STYLES

ROOT = Path(__file__).parents[2]
USUAL = {
    "method": "draft_model",
    "lora": "one",
    "prefix_caching": True,
    "chunked_prefill": True,
    "execution": "eager",
    "scheduling": "sync",
    "sampler": "greedy",
    "structured_output": False,
}


@pytest.fixture(scope="module")
def tier():
    return load_tier(ROOT, "cpu")


@pytest.fixture
def table(tier):
    """Return a function that makes the table of some cells: changes of the usual axes, with status and replacements."""

    def make(*seen):
        config = tier.phase0_runtime
        cells = enumerate_cells(config.axes, config.pruning)
        names = {tuple(cell.axes.items()): cell.cell_id for cell in cells}
        observed = {
            names[tuple({**USUAL, **change}.items())]: {
                "status": "works" if status == "unjudged" else status,
                "reason": "r",
                "replaced": replaced,
                "checks": [{"name": "texts", "outcome": "unknown"}] if status == "unjudged" else [],
                "timestamp": "t",
            }
            for change, status, replaced in seen
        }
        frame = composability_table(lay_over(cells, observed), tier)
        return COMPOSABILITY.check(frame).set_index(["method", "lora", "axis", "value"])

    return make


def _place(frame, lora, axis, value, method="draft_model"):
    row = frame.loc[method, lora, axis, value]
    return row["status"], row.get(f"num_{row['status']}", 0), row["num_measured"]


def test_the_worst_of_several_cells_is_shown_with_how_many_have_it(table):
    frame = table(
        ({}, "works", {}),
        ({"prefix_caching": False}, "refused", {}),
        ({"sampler": "temperature_greedy_drafts"}, "wrong", {}),
    )
    assert _place(frame, "one", "chunked_prefill", "on") == ("wrong", 1, 3)
    assert _place(frame, "one", "prefix_caching", "off") == ("refused", 1, 1)
    assert _place(frame, "one", "prefix_caching", "on") == ("wrong", 1, 2)
    assert _place(frame, "one", "sampler", "greedy") == ("refused", 1, 2)


def test_all_statuses_of_a_place_are_counted(table):
    frame = table(
        ({}, "works", {}),
        ({"prefix_caching": False}, "works", {}),
        ({"lora": "one", "execution": "compiled"}, "wrong", {}),
    )
    row = frame.loc["draft_model", "one", "scheduling", "sync"]
    assert (row["num_works"], row["num_wrong"], row["num_measured"]) == (2, 1, 3)


def test_a_box_is_split_by_the_shares_of_its_cells():
    frame = frames.composability(1)
    place = frame[(frame["num_measured"] > frame["num_works"]) & (frame["num_works"] > 0)].iloc[0]
    ax = FIGURES["composability"].draw(frame).axes[0]
    (label,) = (
        t
        for t in ax.texts
        if t.get_text()
        == f"{STATUS_STYLES[place['status']].letter} {place['num_' + place['status']]}/{place['num_measured']}"
    )
    x, y = label.get_position()
    widths = [
        box.get_width()
        for box in ax.patches
        if box.get_linewidth() == 0
        and box.get_width() > 0
        and abs(box.get_y() + 0.46 - y) < 0.01
        and x - 0.5 < box.get_x() < x + 0.5
    ]
    shares = [place["num_works"], place["num_measured"] - place["num_works"]]
    assert widths == pytest.approx([0.96 * share / place["num_measured"] for share in shares])


def test_a_replaced_setting_shows_only_under_its_own_feature(table):
    frame = table(({"scheduling": "async"}, "works", {"scheduling": "sync"}))
    assert _place(frame, "one", "scheduling", "async") == ("replaced", 1, 1)
    assert _place(frame, "one", "prefix_caching", "on") == ("works", 1, 1)


def test_a_cell_whose_output_was_not_judged_is_not_shown_as_working(table):
    frame = table(({}, "unjudged", {}), ({"prefix_caching": False}, "works", {}))
    assert _place(frame, "one", "execution", "eager") == ("unjudged", 1, 2)
    assert _place(frame, "one", "prefix_caching", "off") == ("works", 1, 1)


def test_every_measured_cell_counts_once_under_each_feature(table):
    frame = table(({}, "works", {}), ({"lora": "off"}, "works", {}), ({"method": "none"}, "wrong", {}))
    assert set(frame.groupby("axis")["num_measured"].sum()) == {3}


def test_places_without_cells_say_whether_anything_could_be_there(table):
    frame = table(({}, "works", {}))
    assert _place(frame, "several", "execution", "eager")[0] == "unmeasured"
    assert _place(frame, "one", "sampler", "temperature_greedy_drafts", method="none")[0] == "meaningless"
    assert _place(frame, "any", "execution", "eager", method="mtp") == ("conceptual", 0, 0)


def test_a_matrix_that_nobody_measured_has_no_table(table):
    with pytest.raises(EvidenceError, match="no cell was measured"):
        table()


def test_each_place_shows_letter_and_count():
    frame = frames.composability(4)
    words = [text.get_text() for text in FIGURES["composability"].draw(frame).axes[0].texts]
    for row in frame[frame["num_measured"] > 0].itertuples():
        share = f"{getattr(row, f'num_{row.status}')}/{row.num_measured}"
        assert f"{STATUS_STYLES[row.status].letter} {share}" in words


def test_the_footer_counts_cells_and_not_places():
    frame = frames.composability(1)
    total = frame[frame["axis"] == "prefix_caching"]["num_measured"].sum()
    fig = FIGURES["composability"].draw(frame)
    (footer,) = (text.get_text() for text in fig.findobj(Text) if text.get_gid() == "footer")
    assert f"n = {total} measured cell" in footer
