"""What the two predictor-gated baselines share: tokens per step from predicted acceptance, over what a step costs."""

from lora_spec.policy.live import best_depths
from lora_spec.stress.policies.base import Rates, Situation


def lengths_of(rates: Rates, max_depth: int) -> list[float]:
    """Return E_0 to E_max; positions beyond the known ones add nothing."""
    lengths = [1.0]
    for depth in range(max_depth):
        lengths.append(lengths[-1] + (rates[depth] if depth < len(rates) else 0.0))
    return lengths


def best_alone(situation: Situation, rates: Rates) -> tuple[int, ...]:
    """Return, at every load, the best depth if the whole batch were of this acceptance."""
    ceilings = (situation.max_depth,) * len(situation.loads)
    return best_depths(lengths_of(rates, situation.max_depth), situation.loads, ceilings)
