"""What every figure must show, and that its words stay on the page and off each other."""

import itertools

import frames
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from lora_spec.errors import ConfigError, ResultError
from lora_spec.plots.context import WATERMARK
from lora_spec.plots.registry import FIGURES, get_figure
from lora_spec.plots.style import house_style


def _texts(fig: Figure, gid: str) -> list[str]:
    return [text.get_text() for text in fig.findobj(Text) if text.get_gid() == gid]


def _drawn_boxes(fig: Figure, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object]]:
    """Return the words of a figure with their boxes in pixels, the watermark and leader lines left out."""
    renderer = fig.canvas.get_renderer()
    drawn: list[Text] = []
    draw = Text.draw

    def record(text: Text, *args: object) -> None:
        drawn.append(text)
        draw(text, *args)

    # What is drawn, not what exists: axes keep labels for ticks outside their range.
    with monkeypatch.context() as patched, house_style():
        patched.setattr(Text, "draw", record)
        fig.canvas.draw()
    return [
        (text.get_text(), Text.get_window_extent(text, renderer))
        for text in drawn
        if text.get_visible() and text.get_text().strip() and text.get_gid() != "watermark"
    ]


def _cases():
    for name in FIGURES:
        make = getattr(frames, name)
        if name == "cost_model_fit":
            yield pytest.param(name, make(batches=(1, 2, 4, 8, 16, 32), contexts=(256, 1024)), id=f"{name}-large")
        else:
            yield pytest.param(name, make(48), id=f"{name}-48")
            yield pytest.param(name, make(1), id=f"{name}-1")


def _check_words(fig: Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = _drawn_boxes(fig, monkeypatch)
    page = fig.bbox.padded(1.0)
    assert [words for words, box in boxes if not (page.x0 <= box.x0 and box.x1 <= page.x1)] == []
    assert [words for words, box in boxes if not (page.y0 <= box.y0 and box.y1 <= page.y1)] == []
    overlapping = [
        (first, second)
        for (first, a), (second, b) in itertools.combinations(boxes, 2)
        if a.padded(-1.0).overlaps(b.padded(-1.0))
    ]
    assert overlapping == []


def test_words_stay_on_the_page_and_apart(drawn_figure, monkeypatch):
    _check_words(drawn_figure.fig, monkeypatch)


@pytest.mark.parametrize(("name", "frame"), list(_cases()))
def test_words_stay_apart_with_one_adapter_and_with_many(name, frame, monkeypatch):
    _check_words(FIGURES[name].draw(frame), monkeypatch)


def test_the_footer_tells_tier_evidence_n_and_set_up(drawn_figure):
    (footer,) = _texts(drawn_figure.fig, "footer")
    for part in ("tier mini", "evidence: measured", "n = ", frames.SETUP):
        assert part in footer.replace("\n", " ")


def test_interval_level_is_told_where_there_is_one():
    assert "90 % intervals" in _texts(FIGURES["paired_effect"].draw(frames.paired_effect()), "footer")[0]
    assert "% intervals" not in _texts(FIGURES["cost_model_fit"].draw(frames.cost_model_fit()), "footer")[0]


def test_one_synthetic_row_marks_the_whole_figure(drawn_figure):
    assert _texts(drawn_figure.fig, "watermark") == []
    frame = drawn_figure.frame.copy()
    frame.loc[0, "evidence"] = "synthetic-smoke"
    fig = drawn_figure.spec.draw(frame)
    assert _texts(fig, "watermark") == [WATERMARK]
    assert "evidence: synthetic-smoke" in _texts(fig, "footer")[0]


def test_drawing_leaves_the_table_alone(drawn_figure):
    assert drawn_figure.frame.equals(getattr(frames, drawn_figure.spec.schema.name)())


def test_axes_with_numbers_name_their_unit(drawn_figure):
    labels = [label for ax in drawn_figure.fig.axes for label in (ax.get_xlabel(), ax.get_ylabel()) if label]
    assert labels
    assert all("(" in label for label in labels)


def test_every_adapter_is_named_in_the_paired_effect_figure():
    frame = frames.paired_effect(48)
    names = {label.get_text() for label in FIGURES["paired_effect"].draw(frame).axes[0].get_yticklabels()}
    assert names == set(frame["adapter"])


def test_adapters_are_sorted_by_their_own_traffic_within_a_stratum():
    frame = frames.paired_effect(12)
    labels = [label.get_text() for label in FIGURES["paired_effect"].draw(frame).axes[0].get_yticklabels()]
    own = frame[frame["prompt_set"] == "own"].set_index("adapter")
    shown = own.loc[labels]
    assert list(shown["stratum"].unique()) == list(frame["stratum"].unique())
    for _, part in shown.groupby("stratum"):
        assert part["delta_acceptance_length"].is_monotonic_increasing


def test_the_effect_line_of_each_prompt_set_is_drawn_where_the_table_puts_it():
    frame = frames.paired_effect()
    frame["threshold"] = frame["prompt_set"].map({"own": -0.2, "common": -0.1})
    collections = FIGURES["paired_effect"].draw(frame).axes[0].collections
    upright = [
        path.vertices for lines in collections for path in lines.get_paths() if len(set(path.vertices[:, 0])) == 1
    ]
    assert sorted({round(float(vertices[0, 0]), 6) for vertices in upright}) == [-0.2, -0.1]
    assert len(upright) == len(frame)


def test_a_name_with_a_formula_in_it_is_shown_as_it_is():
    frame = frames.paired_effect().replace({"adapter": {"french": "a$b_{c$"}})
    labels = [label.get_text() for label in FIGURES["paired_effect"].draw(frame).axes[0].get_yticklabels()]
    assert "a$b_{c$" in labels


def test_a_map_without_adapters_is_refused():
    frame = frames.decision_map()
    with pytest.raises(ResultError, match="both kinds"):
        FIGURES["decision_map"].draw(frames.recounted(frame[frame["kind"] == "cell"]))


@pytest.mark.parametrize(("action", "depth"), [("abstain", None), ("red", 0)])
def test_a_map_of_one_action_is_drawn_with_that_action_alone(action, depth):
    frame = frames.decision_map().assign(action=action, num_speculative_tokens=depth, speedup=None)
    (legend,) = FIGURES["decision_map"].draw(frame).legends
    (label,) = [text.get_text() for text in legend.get_texts()]
    assert action in label


def test_every_adapter_shows_its_own_depth_at_every_load():
    frame = frames.decision_map()
    beside = FIGURES["decision_map"].draw(frame).axes[2]
    shown = {(int(text.get_position()[0]), int(text.get_position()[1])): text.get_text() for text in beside.texts}
    adapters = frame[frame["kind"] == "adapter"]
    order = list(adapters.sort_values("acceptance_length")["adapter"].unique())
    loads = sorted(adapters["load_batch_size"].unique())
    words = {0: "off", 1: "1", 2: "2", 3: "3"}
    expected = {
        (loads.index(row.load_batch_size), order.index(row.adapter)): "?"
        if row.action == "abstain"
        else words[int(row.num_speculative_tokens)]
        for row in adapters.itertuples()
    }
    assert shown == expected


def test_speedups_that_all_tie_cross_nowhere():
    frame = frames.rank_disagreement(8).assign(speedup=1.0, lower=1.0, upper=1.0, throughput_rank=4.5)
    ladder = FIGURES["rank_disagreement"].draw(frame).axes[0]
    heights = [line.get_ydata() for line in ladder.get_lines()]
    assert all(len(set(height)) == 1 for height in heights)


def test_loads_with_different_adapters_are_refused():
    frame = frames.rank_disagreement()
    with pytest.raises(ResultError, match="every-word-prefixed"):
        FIGURES["rank_disagreement"].draw(frames.recounted(frame.iloc[:-1]))


def test_an_unknown_figure_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match="no figure 'pie'; there are composability, paired_effect"):
        get_figure("pie")


def test_intervals_that_say_nothing_are_counted_as_such():
    frame = frames.predicted_vs_measured()
    depth = frame["num_speculative_tokens"].iloc[0]
    known = frame["predicted"].notna()
    vacuous = frame.assign(
        predicted_lower=frame["predicted_lower"].mask(known, 1.0),
        predicted_upper=frame["predicted_upper"].mask(known, depth + 1.0),
    )
    for shown, is_told in ((frame, False), (vacuous, True)):
        fig = FIGURES["predicted_vs_measured"].draw(shown)
        titles = " ".join(" ".join(ax.get_title(loc="left").split()) for ax in fig.axes)
        assert ("every interval is the whole possible range" in titles) == is_told
        assert ("hold the measured value" in titles) != is_told


def test_an_interval_that_leaves_the_frame_says_so():
    frame = frames.predicted_vs_measured(3)
    right = frame["measured"].where(frame["predicted"].notna())
    narrow = frame.assign(predicted=right, predicted_lower=right, predicted_upper=right)
    wide = narrow.assign(predicted_upper=right.mask(right.notna(), 4.0))
    for shown, is_told in ((narrow, False), (wide, True)):
        fig = FIGURES["predicted_vs_measured"].draw(shown)
        (legend,) = fig.legends
        assert ("it goes on beyond the frame" in [text.get_text() for text in legend.get_texts()]) == is_told
        arrows = [line for ax in fig.axes for line in ax.get_lines() if line.get_marker() == "^"]
        assert bool(arrows) == is_told
