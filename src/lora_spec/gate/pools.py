"""Which adapter goes to which engine where engines have no depth per adapter. Knows nothing of command lines.

One pool for every depth that the policy gives at the headline load. The pool of the standing depth is always there: it
takes the base model, adapters without a verdict and, unless gate.yaml says otherwise, those whose verdict abstains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lora_spec.cost_model.model import CostModel
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.gate.settings import GateSettings
from lora_spec.records import Interval
from lora_spec.typed import check_type

TAX_KEY = "off_in_engine_tax"
"""Key of the cost model's context: by which share a step without drafts takes longer in an engine that can draft."""

OffWhere = Literal["in another pool", "merged"]


@dataclass(frozen=True)
class Pool:
    """Engines of one configuration.

    Parameters
    ----------
    name
        Letters, digits and hyphens: it becomes a word of a shell script.
    num_speculative_tokens
        Depth of all its requests; 0: the engine has no drafter at all.
    is_merged
        Whether the engine serves the weights of its one adapter merged into the base.
    """

    name: str
    num_speculative_tokens: int
    adapters: tuple[str, ...]
    is_base_served: bool = False
    is_merged: bool = False


def headline_index(payload: Mapping[str, Any], settings: GateSettings) -> int:
    """Return the load of the policy that the headline's batch belongs to, as the engine looks it up."""
    sizes = [load["max_batch_size"] for load in payload["loads"]]
    headline = settings.headline_batch_size or sizes[(len(sizes) - 1) // 2]
    return next((index for index, size in enumerate(sizes) if headline <= size), len(sizes) - 1)


def plan_pools(
    verdicts: Sequence[FleetVerdict],
    payload: Mapping[str, Any],
    *,
    settings: GateSettings,
    is_hot_adapter_merged: bool,
) -> tuple[Pool, ...]:
    """Return the pools, the standing one first, then by falling depth, merged ones last; every adapter is in one."""
    index, standing = headline_index(payload, settings), settings.standing_num_speculative_tokens
    by_depth: dict[int, list[str]] = {standing: []}
    merged = []
    for verdict in verdicts:
        if is_hot_adapter_merged and verdict.action == "red" and verdict.drafter == "adapt":
            merged.append(verdict.name)
        else:
            by_depth.setdefault(payload["adapters"][verdict.name][index], []).append(verdict.name)
    shared = [
        Pool(f"k{depth}" if depth else "off", depth, tuple(by_depth[depth]), is_base_served=depth == standing)
        for depth in sorted(by_depth, reverse=True)
    ]
    return (*shared, *(Pool(f"merged-{i}", 0, (name,), is_merged=True) for i, name in enumerate(merged, start=1)))


def pool_of(pools: Sequence[Pool]) -> dict[str, Pool]:
    """Return each adapter's pool."""
    return {name: pool for pool in pools for name in pool.adapters}


def off_in_engine_tax(cost_model: CostModel) -> Interval | None:
    """Return the tax on steps without drafts in an engine that can draft, None where nobody has measured it.

    Raises
    ------
    ResultError
        The cost model holds something else under that key.
    """
    found = cost_model.context.get(TAX_KEY)
    return None if found is None else check_type(Interval, found, f"cost model: context: {TAX_KEY}")
