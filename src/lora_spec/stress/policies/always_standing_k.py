"""The depth that the fleet runs today, for all."""

from lora_spec.stress.policies.base import Candidates, Situation
from lora_spec.stress.policies.controlled import ControlledChooser, one_depth


def always_standing_k(situation: Situation) -> Candidates:
    """Return the standing depth."""
    depth = situation.standing_depth
    return {f"K={depth}": lambda: ControlledChooser(one_depth(situation, depth), max_depth=situation.max_depth)}
