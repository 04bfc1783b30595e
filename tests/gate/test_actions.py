import dataclasses

import numpy as np
import pytest
from hand_made import SETTINGS

from lora_spec.errors import ConfigError
from lora_spec.gate import GateSettings, gate_settings
from lora_spec.gate.actions import Choice, choose, is_harmful, losses_of


def _choice(one: float, two: float, three: float, four: float = 0.1) -> Choice:
    return choose({0: 1.0, 1: one, 2: two, 3: three, 4: four}, SETTINGS)


def test_the_best_standing_depth_is_green():
    assert _choice(1.1, 1.2, 1.3) == Choice(3, "green")


def test_a_shorter_depth_within_tolerance_changes_nothing():
    assert _choice(1.1, 1.30, 1.30 * 0.971) == Choice(3, "green")
    assert _choice(1.1, 1.30, 1.30 * 0.969) == Choice(2, "amber")


def test_the_best_shorter_depth_is_amber_also_where_standing_would_gain():
    assert _choice(1.4, 1.3, 1.2) == Choice(1, "amber")


def test_off_is_red_where_no_depth_beats_it():
    assert _choice(0.99, 0.9, 0.8) == Choice(0, "red")


def test_a_tie_with_off_keeps_the_standing_depth():
    assert _choice(0.5, 0.5, 0.98) == Choice(3, "green")
    assert _choice(0.5, 0.5, 0.96) == Choice(0, "red")


def test_a_harmful_standing_depth_is_never_green():
    tight = dataclasses.replace(SETTINGS, max_green_loss=0.1, dead_band=0.01)
    speedups = {0: 1.0, 1: 0.5, 2: 0.5, 3: 0.95, 4: 0.5}
    assert is_harmful(speedups, tight)
    assert choose(speedups, tight) == Choice(0, "red")


def test_a_better_deeper_depth_does_not_change_the_colour():
    assert _choice(1.0, 1.1, 1.2, four=9.0) == Choice(3, "green")
    assert _choice(1.5, 1.1, 1.2, four=9.0) == Choice(1, "amber")


def test_equal_shorter_depths_give_the_deeper_one():
    assert _choice(1.5, 1.5, 1.0) == Choice(2, "amber")


def test_loss_is_relative_to_the_best_up_to_the_standing_depth():
    draws = {0: [1.0, 3.0], 1: [2.0, 1.0], 2: [1.0, 1.0], 3: [1.5, 1.5], 4: [10.0, 10.0]}
    speedups = {depth: np.array(values) for depth, values in draws.items()}
    assert losses_of(3, speedups, SETTINGS) == pytest.approx([0.25, 0.5])
    assert losses_of(1, speedups, SETTINGS) == pytest.approx([0.0, 2 / 3])


@pytest.mark.parametrize(("standing", "depths"), [(3, (1, 2, 3)), (3, (0, 1, 2)), (0, (0, 1)), (1, (-1, 0, 1))])
def test_settings_need_off_and_the_standing_depth(standing, depths):
    with pytest.raises(ConfigError, match="candidate_depths"):
        GateSettings(standing_num_speculative_tokens=standing, candidate_depths=depths)


def test_a_tolerance_outside_zero_to_one_is_refused_by_name():
    with pytest.raises(ConfigError, match="dead_band"):
        dataclasses.replace(SETTINGS, dead_band=3.0)


def test_the_values_of_the_config_reach_the_settings():
    values = {
        "standing_num_speculative_tokens": 2,
        "candidate_depths": [0, 1, 2],
        "headline_load": {"batch_size": 5, "num_context_tokens": 64},
        "map_batch_sizes": [1, 5],
        "max_green_loss": 0.04,
        "dead_band": 0.01,
        "max_acceptance_length_width": 0.7,
        "max_speedup_width": 0.2,
        "hot_traffic_share": 0.3,
        "default_traffic_share": 0.1,
        "seed": 0,
    }
    settings = gate_settings(values)
    assert settings.candidate_depths == (0, 1, 2)
    assert (settings.headline_batch_size, settings.batch_sizes) == (5, (1, 5))
    for name in ("max_green_loss", "dead_band", "max_acceptance_length_width", "max_speedup_width",
                 "hot_traffic_share", "default_traffic_share", "standing_num_speculative_tokens"):  # fmt: skip
        assert getattr(settings, name) == values[name]
