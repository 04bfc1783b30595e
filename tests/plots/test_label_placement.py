"""Names: shortened so that they still differ, and placed clear of marks and of each other."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Annotation, Text

from lora_spec.plots.labels import place_labels, shorten
from lora_spec.plots.style import house_style, new_figure


@settings(max_examples=50, deadline=None)
@given(st.text(min_size=1, max_size=80), st.integers(5, 40))
def test_a_shortened_name_fits_and_prints(name, max_chars):
    short = shorten(name, max_chars)
    assert 0 < len(short) <= max_chars
    assert short.isprintable()


def test_a_name_that_fits_is_unchanged_and_a_long_one_keeps_both_ends():
    assert shorten("french", 6) == "french"
    assert shorten("unit-conversion-r16-s23", 11) == "unit-…6-s23"


def test_labels_cover_neither_marks_nor_each_other():
    points = np.random.default_rng(0).uniform(0, 1, (30, 2))
    with house_style():
        fig = new_figure(4.0)
        ax = fig.subplots()
        ax.set(xlim=(0, 1), ylim=(0, 1))
        fig.canvas.draw()
        left_out = place_labels(ax, points, [f"adapter-{i}" for i in range(30)], marks=points, lines=points)
        fig.canvas.draw()
        renderer = fig.canvas.get_renderer()
        boxes = [Text.get_window_extent(label, renderer) for label in ax.findobj(Annotation)]
    assert len(boxes) + len(left_out) == 30
    assert len(boxes) > 15
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    pixels = ax.transData.transform(points)
    assert not any(box.contains(*pixel) for box in boxes for pixel in pixels)


def test_labels_without_room_are_reported():
    points = np.full((3, 2), 0.5)
    with house_style():
        fig = new_figure(0.6, width_in=0.8)
        fig.set_layout_engine("none")
        ax = fig.add_axes([0.1, 0.1, 0.8, 0.8])
        fig.canvas.draw()
        left_out = place_labels(ax, points, ["a-name-wider-than-the-page"] * 3, marks=points, lines=points)
    assert len(left_out) == 3
    assert ax.findobj(Annotation) == []
