"""From a fleet of verdicts to the payload of ``policy.json``: a depth for every adapter at every load.

Knows the words of the file (:mod:`lora_spec.policy.policy_file` reads it) and not the reader. The rules, by the verdict
on an adapter:

- at each load what the verdict says there; red is depth 0.
- a load at which a green, amber or red verdict abstains takes the depth of the largest speedup that the verdict's own
  estimates give there, but no more than any emptier load was given: what an adapter accepts is known well enough at the
  headline load and does not depend on the load, and what a draft gains does not grow with the crowd. The standing depth
  would be no safer: where depths 0 and 1 are too near to tell apart, it is often worse than both.
- where a verdict that abstains as a whole says nothing of a load: the standing depth, but no more than any emptier load
  was given, or 0, as ``policy.abstained`` of gate.yaml says.
- the base model, and adapters that nobody has judged: the standing depth at every load.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lora_spec.cost_model.model import CostModel
from lora_spec.errors import ConfigError
from lora_spec.gate.applicability import check_same_pair
from lora_spec.gate.fleet_verdicts import FleetVerdict, LoadDepth
from lora_spec.gate.settings import GateSettings
from lora_spec.printing import printable


def fleet_policy(
    verdicts: Sequence[FleetVerdict],
    cost_model: CostModel,
    *,
    settings: GateSettings,
    policy: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the payload of ``policy.json``.

    Parameters
    ----------
    cost_model
        The one that the verdicts rest on.
    policy
        Block ``policy`` of ``gate.yaml``.

    Raises
    ------
    ConfigError
        A verdict was given for other depths, loads, models or step times, or no load is a whole number of requests.
    """
    sizes = policy_batch_sizes(cost_model, settings)
    for verdict in verdicts:
        check_fits(verdict, cost_model, settings, sizes)
    standing = settings.standing_num_speculative_tokens
    return {
        "max_num_speculative_tokens": standing,
        "loads": [
            {
                "max_batch_size": size,
                "step_time_ratios": [1 / cost_model.time_ratio(k, size).estimate for k in range(standing + 1)],
            }
            for size in sizes
        ],
        "default": [standing] * len(sizes),
        "adapters": {v.name: depths_of(v, sizes, standing=standing, abstained=policy["abstained"]) for v in verdicts},
        "live": policy["live"],
    }


def at_load_of(verdicts: Sequence[FleetVerdict], settings: GateSettings) -> GateSettings:
    """Return the settings with the load that the verdicts were given for as the headline, where they tell one.

    Raises
    ------
    ConfigError
        Two verdicts are about two loads: their actions and speedups cannot stand in one table.
    """
    found = {verdict.context["batch_size"]: verdict for verdict in verdicts if verdict.by_load}
    if len(found) > 1:
        (one, first), (other, second) = sorted(found.items())[:2]
        raise ConfigError(
            f"{printable(first.where, 400)} is about batch size {one:g}, {printable(second.where, 400)} about "
            f"{other:g}; diagnose the whole fleet for one load (--load-batch-size)"
        )
    return replace(settings, headline_batch_size=next(iter(found))) if found else settings


def policy_batch_sizes(cost_model: CostModel, settings: GateSettings) -> list[int]:
    """Return the loads of a verdict that are whole numbers of requests, rising."""
    sizes: set[float] = set(settings.batch_sizes or cost_model.batch_sizes)
    if settings.headline_batch_size is not None:
        sizes.add(settings.headline_batch_size)
    whole = sorted(int(size) for size in sizes if float(size).is_integer())
    if not whole:
        raise ConfigError(f"loads {sorted(sizes)}: none is a whole number of requests; correct map_batch_sizes")
    return whole


def depths_of(verdict: FleetVerdict, sizes: Sequence[int], *, standing: int, abstained: str) -> list[int]:
    """Return an adapter's depth at every load; see the module for the rules."""
    unknown = standing if abstained == "standing" else 0
    told = {load.batch_size: load for load in verdict.by_load}
    if not told:
        return [unknown] * len(sizes)
    depths: list[int] = []
    ceiling = standing
    for size in sizes:
        depth = told[size].num_speculative_tokens
        if depth is None and verdict.action != "abstain":
            depth = _fastest(told[size], ceiling)
        depths.append(min(unknown, ceiling) if depth is None else depth)
        ceiling = ceiling if depth is None else min(ceiling, depth)
    return depths


def _fastest(load: LoadDepth, ceiling: int) -> int | None:
    """Return the depth of the largest estimated speedup up to a ceiling, the deepest of equals; None without any."""
    estimates = {depth: found[0] for depth, found in load.speedups.items() if depth <= ceiling}
    return max(estimates, key=lambda depth: (estimates[depth], depth), default=None)


def check_fits(verdict: FleetVerdict, cost_model: CostModel, settings: GateSettings, sizes: Sequence[int]) -> None:
    """Refuse a verdict that was given for something else than this policy; one without any loads says nothing."""
    if not verdict.by_load:
        return
    where, context = printable(verdict.path, 400), verdict.context
    standing = context["standing_num_speculative_tokens"]
    if standing != settings.standing_num_speculative_tokens:
        raise ConfigError(
            f"{where}: the verdict is about the standing depth {standing}, gate.yaml about "
            f"{settings.standing_num_speculative_tokens}; diagnose with this gate, or give the verdict's"
        )
    check_same_pair(context, cost_model)
    told, timed = context.get("parts"), cost_model.context.get("parts")
    if None not in (told, timed) and told != timed:
        raise ConfigError(f"{where}: the verdict rests on other step times than this cost model; diagnose with it")
    if missing := sorted(set(sizes) - {load.batch_size for load in verdict.by_load}):
        raise ConfigError(f"{where}: says nothing of batch size {missing[0]}; diagnose with this gate")
    deepest = max(load.num_speculative_tokens or 0 for load in verdict.by_load)
    if deepest > standing:
        raise ConfigError(f"{where}: chooses depth {deepest} beyond the standing {standing}; diagnose again")
