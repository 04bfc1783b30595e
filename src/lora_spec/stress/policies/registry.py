"""Policies by name; those of ``baselines.yaml`` bear the names they have there."""

from lora_spec.errors import ConfigError
from lora_spec.stress.policies import (
    online_bandit,
    policy_file,
    policy_file_live,
    predictor_gated_disablement,
    predictor_gated_shortened_depth,
    rolling_acceptance_gate,
)
from lora_spec.stress.policies.always_off import always_off
from lora_spec.stress.policies.always_standing_k import always_standing_k
from lora_spec.stress.policies.base import Candidates, MakePolicy, Situation
from lora_spec.stress.policies.best_static_k import best_static_k
from lora_spec.stress.policies.oracle import oracle

BEST_STATIC, ORACLE = "best_static_k", "oracle"

POLICIES: dict[str, MakePolicy] = {
    "always_off": always_off,
    "always_standing_k": always_standing_k,
    BEST_STATIC: best_static_k,
    predictor_gated_disablement.NAME: predictor_gated_disablement.predictor_gated_disablement,
    predictor_gated_shortened_depth.NAME: predictor_gated_shortened_depth.predictor_gated_shortened_depth,
    policy_file.NAME: policy_file.policy_file,
    policy_file_live.NAME: policy_file_live.policy_file_live,
    rolling_acceptance_gate.NAME: rolling_acceptance_gate.rolling_acceptance_gate,
    online_bandit.NAME: online_bandit.online_bandit,
    ORACLE: oracle,
}


def make_candidates(name: str, situation: Situation) -> Candidates:
    """Return a policy's ways to run.

    Raises
    ------
    ConfigError
        No policy has this name, or it needs what the situation does not have.
    """
    if name not in POLICIES:
        raise ConfigError(f"no policy {name!r}; there are {', '.join(POLICIES)}")
    return POLICIES[name](situation)
