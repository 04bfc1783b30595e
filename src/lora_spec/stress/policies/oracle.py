"""The best depth per adapter and load for the mix, by true acceptance: a bound that nobody can deploy."""

from functools import partial

from lora_spec.stress.policies.base import Candidates, Situation
from lora_spec.stress.policies.controlled import ControlledChooser, depths_by_adapter, one_depth
from lora_spec.stress.policies.mix_depths import best_mix_depths


def oracle(situation: Situation) -> Candidates:
    """Return the depths of the mix's optimum, and every single depth beside them: hindsight takes the best.

    The optimum is that of batches drawn from the mix; a run's own batches differ a little, and no bound may lose to
    one depth for all.
    """
    by_adapter = best_mix_depths(
        situation.acceptance, situation.shares, situation.loads, situation.cost, max_depth=situation.max_depth
    )
    policies = {"by adapter": depths_by_adapter(situation, by_adapter)}
    policies |= {f"K={depth}": one_depth(situation, depth) for depth in range(situation.max_depth + 1)}
    return {
        label: partial(ControlledChooser, policy, max_depth=situation.max_depth) for label, policy in policies.items()
    }
