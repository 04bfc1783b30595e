"""Which adapter goes to which engine where engines have no depth per adapter. Knows nothing of command lines.

One pool for every depth that the policy gives at the headline load. The pool of the standing depth is always there: it
takes the base model, adapters without a verdict and, unless gate.yaml says otherwise, those whose verdict abstains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lora_spec.cost_model.model import CostModel
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.errors import ConfigError
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.gate.settings import GateSettings
from lora_spec.printing import printable
from lora_spec.records import Interval

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


def off_in_engine_tax(step_cost: StepCostModel, *, batch_size: int, num_context_tokens: int) -> Interval:
    """Return by which share a step without drafts takes longer in an engine that can draft than in one that cannot.

    Parameters
    ----------
    num_context_tokens
        Per request.
    """
    elsewhere = step_cost.without_drafter()
    return step_cost.excess_over(elsewhere, [0] * batch_size, num_context_tokens=batch_size * num_context_tokens)


def check_same_engine(step_cost: StepCostModel, cost_model: CostModel) -> None:
    """Refuse parts of a step that were timed otherwise than the gate's table: times of two engines do not add up.

    Raises
    ------
    ConfigError
        Models, vLLM's version, number format, way of execution or served rank differ, or the parts are not of an engine
        with LoRA and a drafter. What one of the two does not tell is not compared.
    """
    if not (step_cost.has_drafter and step_cost.has_lora):
        raise ConfigError("the parts of a step are of an engine without a drafter or without LoRA; give them as fitted")
    parts, table = (_told(model.context) for model in (step_cost, cost_model))
    for key in _SAME:
        found, expected = parts.get(key), table.get(key)
        if None not in (found, expected) and found != expected:
            raise ConfigError(
                f"the parts of a step were timed with {key.replace('_', ' ')} {printable(found)}, the cost model with "
                f"{printable(expected)}; give parts of the same engine"
            )


_SAME = ("target", "drafter", "vllm", "dtype", "enforce_eager", "is_async_scheduling", "lora_rank")


def _told(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model says of the engine that it was timed on, and of the rank served there."""
    engine = context.get("engine")
    return {**(engine if isinstance(engine, Mapping) else {}), "lora_rank": context.get("lora_rank")}


def check_loads_are_timed(step_cost: StepCostModel, batch_sizes: Sequence[int], *, max_extrapolation: float) -> None:
    """Refuse loads far beyond those that the parts of a step were timed at.

    Raises
    ------
    ConfigError
        A load is more than ``max_extrapolation`` times the largest batch that was timed.
    """
    timed, largest = step_cost.context.get("max_batch_size"), max(batch_sizes)
    if isinstance(timed, int) and largest > max_extrapolation * timed:
        raise ConfigError(
            f"the parts of a step were timed up to batch size {timed}, the policy is for batch size {largest}; time "
            "larger batches, or take that load out of gate.yaml"
        )
