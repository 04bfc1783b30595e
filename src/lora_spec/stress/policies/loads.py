"""Loads of a policy file from a step-cost model."""

from collections.abc import Sequence

from lora_spec.cost_model.step_cost import StepCost
from lora_spec.policy.policy_file import Load


def loads_of(
    cost: StepCost, batch_sizes: Sequence[int], *, max_depth: int, num_context_tokens: int
) -> tuple[Load, ...]:
    """Return one load per batch size, with T_K / T_0 of batches in which all draft alike.

    Parameters
    ----------
    num_context_tokens
        Per request, at which steps are costed.
    """
    loads = []
    for size in batch_sizes:
        times = [
            cost.step_ms([depth] * size, num_prefill_tokens=0, num_context_tokens=size * num_context_tokens)
            for depth in range(max_depth + 1)
        ]
        loads.append(Load(size, tuple(time / times[0] for time in times)))
    return tuple(loads)
