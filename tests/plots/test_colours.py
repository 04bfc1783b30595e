"""Actions can be told apart by every reader, on screen and in grey print."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from lora_spec.plots.actions import ACTION_STYLES
from lora_spec.plots.statuses import STATUS_STYLES
from lora_spec.records import Action

# Machado, Oliveira, Fernandes 2009, "A physiologically-based model for simulation of color vision deficiency",
# full severity, on linear RGB.
_VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_JUST_VISIBLE = 2.3  # CIE76 difference that a reader just notices


def _lab(color: str, vision: str) -> np.ndarray:
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = _TO_XYZ @ np.clip(_VISION[vision] @ linear, 0, 1) / (_TO_XYZ @ np.ones(3))
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("styles", [ACTION_STYLES, STATUS_STYLES], ids=["actions", "statuses"])
@pytest.mark.parametrize("vision", _VISION)
def test_colours_of_one_kind_differ_clearly(vision, styles):
    for first, second in itertools.combinations(styles.values(), 2):
        distance = np.linalg.norm(_lab(first.color, vision) - _lab(second.color, vision))
        assert distance > 8 * _JUST_VISIBLE, (first.label, second.label)


def test_each_action_has_a_marker_of_its_own():
    assert set(ACTION_STYLES) == set(Action.__args__)
    assert len({style.marker for style in ACTION_STYLES.values()}) == len(ACTION_STYLES)


def test_each_status_has_a_letter_of_its_own_that_can_be_read_on_its_colour():
    assert len({style.letter for style in STATUS_STYLES.values()}) == len(STATUS_STYLES)
    for style in STATUS_STYLES.values():
        lightness = [
            _lab(color, "normal")[0] for color in (style.color, {"white": "#FFFFFF"}.get(style.ink, "#000000"))
        ]
        assert abs(lightness[0] - lightness[1]) > 40, style.label
