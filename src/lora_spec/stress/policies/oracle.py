"""The best depth per adapter and load for the mix, by true acceptance: a bound that nobody can deploy."""

from dataclasses import replace
from functools import partial

from lora_spec.stress.policies.base import Candidates, Situation
from lora_spec.stress.policies.controlled import ControlledChooser, depths_by_adapter, one_depth
from lora_spec.stress.policies.loads import loads_of
from lora_spec.stress.policies.mix_depths import NUM_CONTEXT_TOKENS, best_mix_depths
from lora_spec.stress.policies.predictor_gated import best_alone

_FINE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def oracle(situation: Situation) -> Candidates:
    """Return the mix's optimum, what is best for each adapter alone, and every single depth: hindsight takes the best.

    Its loads are finer than the policy file's. The optimum is that of batches drawn from the mix; a run's own batches
    differ a little, so that this is a bound to within a per cent or two and no proof of one.
    """
    fine = _at_fine_loads(situation)
    mixed = best_mix_depths(fine.acceptance, fine.shares, fine.loads, fine.cost, max_depth=fine.max_depth)
    alone = {name: best_alone(fine, rates) for name, rates in fine.acceptance.items()}
    policies = {"mix": depths_by_adapter(fine, mixed), "alone": depths_by_adapter(fine, alone)}
    policies |= {f"K={depth}": one_depth(fine, depth) for depth in range(fine.max_depth + 1)}
    return {label: partial(ControlledChooser, policy, max_depth=fine.max_depth) for label, policy in policies.items()}


def _at_fine_loads(situation: Situation) -> Situation:
    largest = situation.loads[-1].max_batch_size
    sizes = sorted({size for size in _FINE if size < largest} | {largest})
    loads = loads_of(situation.cost, sizes, max_depth=situation.max_depth, num_context_tokens=NUM_CONTEXT_TOKENS)
    return replace(situation, loads=loads)
