"""Captions: every figure has one, and each is its own."""

from pathlib import Path

import pytest

from lora_spec.errors import ResultError
from lora_spec.plots.captions import caption_of
from lora_spec.plots.registry import FIGURES

TEMPLATE = (Path(__file__).parents[2] / "report" / "figure.rst").read_text()


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_every_figure_has_a_caption_of_its_own(name):
    caption = caption_of(TEMPLATE, FIGURES[name].stem)
    assert len(caption.split()) > 40
    assert not {"{", "}", "*"} & set(caption)
    assert max(map(len, caption.splitlines())) <= 100
    others = {spec.stem for spec in FIGURES.values()} - {FIGURES[name].stem}
    assert caption not in {caption_of(TEMPLATE, stem) for stem in others}


def test_a_figure_without_a_caption_is_named():
    with pytest.raises(ResultError, match="no caption for 'fig0_pie'"):
        caption_of(TEMPLATE, "fig0_pie")
