"""Which adapters of a pool differ in nothing but their seed, gathered for what is computed from such repeats."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lora_spec.config.adapter_pool import AdapterPoolConfig
    from lora_spec.config.tier import Tier

_ESTIMATING = ("num_speculative_tokens", "min_drafts", "level", "num_bootstrap_draws", "seed")


def recipe_groups(pool: "AdapterPoolConfig") -> tuple[tuple[str, ...], ...]:
    """Return the adapters of each recipe, in file order, controls left out: the first of each is a separate adapter."""
    found: dict[str, list[str]] = {}
    for row in pool.adapters:
        if row.stratum != "control":
            found.setdefault(row.recipe, []).append(row.name)
    return tuple(map(tuple, found.values()))


def seed_noise_settings(tier: "Tier", names: Collection[str]) -> dict[str, Any]:
    """Return the groups of repeats among the named adapters, the separate ones, and how counts are estimated.

    A group of which one adapter alone is named is none.
    """
    groups = [[name for name in group if name in names] for group in recipe_groups(tier.adapter_pool)]
    return {
        "groups": [group for group in groups if len(group) > 1],
        "separate": {name: tier.adapter_pool.find(name).domain for name in tier.adapter_pool.separate if name in names},
        "estimating": {key: getattr(tier.phase1_measurement, key) for key in _ESTIMATING},
    }
