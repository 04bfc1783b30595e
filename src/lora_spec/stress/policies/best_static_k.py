"""The one depth that is best for the whole mix at each load: all are run, and hindsight takes the best."""

from functools import partial

from lora_spec.stress.policies.base import Candidates, Situation
from lora_spec.stress.policies.controlled import ControlledChooser, one_depth


def best_static_k(situation: Situation) -> Candidates:
    """Return every depth that the engine can draft."""
    return {
        f"K={depth}": partial(ControlledChooser, one_depth(situation, depth), max_depth=situation.max_depth)
        for depth in range(situation.max_depth + 1)
    }
