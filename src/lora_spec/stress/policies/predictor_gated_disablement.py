"""The standing depth, but off where the predictor expects it to lose."""

from functools import partial

from lora_spec.stress.policies.base import Candidates, Rates, Situation
from lora_spec.stress.policies.controlled import ControlledChooser, depths_by_adapter
from lora_spec.stress.policies.predictor_gated import lengths_of

NAME = "predictor_gated_disablement"


def predictor_gated_disablement(situation: Situation) -> Candidates:
    """Return the standing depth at loads where its predicted tokens per step cover what it costs, else 0."""
    expected = situation.expected_for(NAME)
    policy = depths_by_adapter(situation, {name: _depths(situation, rates) for name, rates in expected.items()})
    return {"predicted": partial(ControlledChooser, policy, max_depth=situation.max_depth)}


def _depths(situation: Situation, rates: Rates) -> tuple[int, ...]:
    depth = situation.standing_depth
    length = lengths_of(rates, situation.max_depth)[depth]
    return tuple(depth if length >= load.step_time_ratios[depth] else 0 for load in situation.loads)
