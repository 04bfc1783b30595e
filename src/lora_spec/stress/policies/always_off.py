"""Speculation off for all; the engine could speculate and pays what that costs."""

from lora_spec.stress.policies.base import Candidates, Situation
from lora_spec.stress.policies.controlled import ControlledChooser, one_depth


def always_off(situation: Situation) -> Candidates:
    """Return depth 0."""
    return {"K=0": lambda: ControlledChooser(one_depth(situation, 0), max_depth=situation.max_depth)}
