"""The depth that the predictor expects to be best for each adapter on its own."""

from functools import partial

from lora_spec.stress.policies.base import Candidates, Situation
from lora_spec.stress.policies.controlled import ControlledChooser, depths_by_adapter
from lora_spec.stress.policies.predictor_gated import best_alone

NAME = "predictor_gated_shortened_depth"


def predictor_gated_shortened_depth(situation: Situation) -> Candidates:
    """Return, by adapter and load, the depth with the most predicted tokens per time, as if alone in the batch."""
    expected = situation.expected_for(NAME)
    policy = depths_by_adapter(situation, {name: best_alone(situation, rates) for name, rates in expected.items()})
    return {"predicted": partial(ControlledChooser, policy, max_depth=situation.max_depth)}
