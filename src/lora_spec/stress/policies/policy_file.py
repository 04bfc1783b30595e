"""The gate's policy file as it stands: a depth per adapter and load, and no look at live acceptance."""

from dataclasses import replace
from functools import partial

from lora_spec.stress.policies.base import Candidates, Situation
from lora_spec.stress.policies.controlled import ControlledChooser

NAME = "policy_file"


def policy_file(situation: Situation) -> Candidates:
    """Return the file without its live rule."""
    policy = replace(situation.policy_for(NAME), live=None)
    return {"file": partial(ControlledChooser, policy, max_depth=situation.max_depth)}
