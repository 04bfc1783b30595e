"""The gate's policy file with its live rule: an adapter that loses is demoted, and probed before it comes back."""

from functools import partial

from lora_spec.errors import ConfigError
from lora_spec.stress.policies.base import Candidates, Situation
from lora_spec.stress.policies.controlled import ControlledChooser

NAME = "policy_file_live"


def policy_file_live(situation: Situation) -> Candidates:
    """Return the file with its live rule.

    Raises
    ------
    ConfigError
        The file has none.
    """
    policy = situation.policy_for(NAME)
    if policy.live is None:
        raise ConfigError(f"policy {NAME!r}: the policy file has no live rule; make one with it or leave this one out")
    return {"file and live rule": partial(ControlledChooser, policy, max_depth=situation.max_depth)}
