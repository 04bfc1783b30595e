"""The cost of a smaller probe: the whole at all prompts, never more than it, and apart by what a direct probe needs."""

import pytest
from made_calibration import make_prompt, make_record

from lora_spec.calibration_record import PartCost
from lora_spec.errors import MeasurementError
from lora_spec.measurement.probe_cost import CostBounds, cost_of_all_signals, cost_of_direct_probe, mean_cost


def _cost(**parts):
    return {name: PartCost(wall, 2 * wall) for name, wall in parts.items()}


# Eight texts of 10 and 40 tokens in turn, prompts of 7: the batch has 40 steps and 200 tokens, the readers read 256.
RECORD = make_record(
    [make_prompt(i, num_positions=40 if i % 2 else 10) for i in range(8)],
    cost_by_part=_cost(merge=1.0, trajectories=4.0, base_forward=2.0, drafter_forward=1.0),
)


def test_all_prompts_cost_what_was_recorded():
    assert cost_of_all_signals(RECORD, 8) == CostBounds(8.0, 8.0, 16.0, 16.0)


def test_a_short_first_text_costs_between_its_tokens_and_its_steps():
    found = cost_of_all_signals(RECORD, 1)
    read = 17 / 256 * 3.0
    assert found.lower_wall_s == pytest.approx(1.0 + 10 / 200 * 4.0 + read)
    assert found.upper_wall_s == pytest.approx(1.0 + 10 / 40 * 4.0 + read)
    assert found.upper_cpu_s == pytest.approx(2 * found.upper_wall_s)


def test_a_direct_probe_needs_one_merge_the_texts_and_the_drafter():
    assert cost_of_direct_probe(RECORD, 8) == CostBounds(5.5, 6.0, 11.0, 12.0)


@pytest.mark.parametrize("cost_of", [cost_of_all_signals, cost_of_direct_probe])
def test_more_prompts_never_cost_less_and_bounds_never_cross(cost_of):
    costs = [cost_of(RECORD, size) for size in range(1, 9)]
    for name in CostBounds.__annotations__:
        values = [getattr(cost, name) for cost in costs]
        assert values == sorted(values)
    assert all(cost.lower_wall_s <= cost.upper_wall_s for cost in costs)


def test_the_mean_is_over_adapters():
    assert mean_cost([CostBounds(1, 2, 3, 4), CostBounds(3, 4, 5, 6)]) == CostBounds(2, 3, 4, 5)


def test_more_prompts_than_were_probed_are_refused():
    with pytest.raises(MeasurementError, match="9 calibration prompts asked for"):
        cost_of_all_signals(RECORD, 9)
