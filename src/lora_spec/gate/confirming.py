"""The adapters of a tier that are confirmed on its second pair, and how findings move there."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from lora_spec.config import Tier
from lora_spec.errors import ConfigError, ResultError
from lora_spec.evaluation.extremes import Chosen, choose_extremes
from lora_spec.evaluation.transfer import IntervalSettings, compare_pairs
from lora_spec.joins import by_adapter
from lora_spec.measurement.summary import SummarySettings
from lora_spec.predictors.joining import check_held_out
from lora_spec.predictors.payload import read_predictions
from lora_spec.records import AcceptanceEstimate
from lora_spec.results import naming, read_result
from lora_spec.typed import AdapterName, check_type

PLAN_KIND = "phase2_confirm_plan"


def choose_confirmed(predictions: Path, tier: Tier) -> tuple[Chosen, ...]:
    """Return the predicted extremes and the random rest by ``confirm_pool``, from held-out predictions.

    The order is that of the predicted acceptance length at the standing depth. Adapters without a recipe of their own
    (copies of another one, published ones) and controls cannot be made again for another target and are left out.

    Raises
    ------
    ConfigError
        The tier has no second pair, or too few adapters are predicted.
    ResultError
        The predictions are of another tier, an adapter stands twice, or its prediction saw its own domain.
    """
    wanted, pool = tier.adapter_pool.confirm_pool, tier.adapter_pool
    if wanted is None:
        raise ConfigError(f"{tier.path_of('adapter_pool')}: confirm_pool is null, so nothing is to be confirmed")
    depth = tier.gate.standing_num_speculative_tokens
    payload = read_predictions(predictions, tier=tier.name).payload
    items = by_adapter(payload["predictions"], lambda item: item["adapter"], what="predictions")
    with naming(predictions):
        for name in set(items).intersection(pool.remade):
            check_held_out(items[name], source=pool.find(name).domain, weights={})
    lengths = {
        name: AcceptanceEstimate.from_dict(item["estimate"]).acceptance_length(depth).estimate
        for name, item in items.items()
        if name in pool.remade
    }
    sources = {name: pool.find(name).domain for name in lengths}
    return choose_extremes(lengths, sources, **wanted.to_dict())


class _ChosenPayload(TypedDict):
    chosen: list[Chosen]


def read_chosen(plan: Path, *, tier: str) -> tuple[Chosen, ...]:
    """Return what a plan of ``phase2_confirm`` chose, with what was predicted then."""
    result = read_result(plan, PLAN_KIND, evidence=("contract-only",))
    if result.tier != tier:
        raise ResultError(f"{plan}: made for tier {result.tier!r}, asked for tier {tier!r}; pass the plan of that tier")
    found = result.payload.get("chosen") if isinstance(result.payload, dict) else None
    chosen = tuple(check_type(_ChosenPayload, {"chosen": found}, str(plan))["chosen"])
    with naming(plan):
        names = by_adapter(chosen, lambda item: item.adapter, what="chosen")
    check_type(list[AdapterName], list(names), f"{plan}: chosen")
    if not chosen:
        raise ResultError(f"{plan}: chose no adapter; run phase2_confirm again")
    return chosen


def transfer_of(
    chosen: Sequence[Chosen],
    first: Sequence[Mapping[str, Any]],
    second: Sequence[Mapping[str, Any]],
    settings: SummarySettings,
) -> dict[str, Any]:
    """Return one report on acceptance lengths, one on the share of the base's acceptance kept, and the adapters.

    An acceptance length on an adapter's own traffic also holds how well the drafter knows that domain. The kept share,
    1 - mismatch, does not; it is missing where a base accepts too little for a ratio, and such adapters are left out.

    Parameters
    ----------
    first, second
        ``adapters`` of the ``measured_acceptance`` results of the primary pair and of the second one.
    settings
        Depth, level, draws and seed: as of the estimates themselves.
    """
    depth = settings.num_speculative_tokens
    how = IntervalSettings(settings.level, settings.num_bootstrap_draws, settings.seed)
    measured = [by_adapter(items, lambda item: item["adapter"], what="measured adapters") for items in (first, second)]
    lengths = [{name: _length(item, depth) for name, item in items.items()} for items in measured]
    kept = [{name: _kept_share(item) for name, item in items.items()} for items in measured]
    both = [item for item in chosen if all(values.get(item.adapter) is not None for values in kept)]
    rows = [
        {
            **{key: getattr(item, key) for key in ("adapter", "source", "group", "predicted")},
            **{f"{pair}_acceptance_length": lengths[i].get(item.adapter) for i, pair in enumerate(("first", "second"))},
            **{f"{pair}_kept_share": kept[i].get(item.adapter) for i, pair in enumerate(("first", "second"))},
        }
        for item in chosen
    ]
    return {
        "num_speculative_tokens": depth,
        "acceptance_length": compare_pairs(chosen, *lengths, settings=how).to_dict(),
        "kept_share": compare_pairs(both, *kept, settings=how).to_dict(),
        "adapters": rows,
    }


def _length(item: Mapping[str, Any], depth: int) -> float:
    return AcceptanceEstimate.from_dict(item["estimate"]).acceptance_length(depth).estimate


def _kept_share(item: Mapping[str, Any]) -> float | None:
    """Return 1 - mismatch on the adapter's own traffic: accepted drafts per step over the base's; None if undefined."""
    own = next((effect for effect in item["effects"] if effect["prompt_set"] == "own"), None)
    if own is None or own["mismatch"] is None:
        return None
    return 1 - own["mismatch"]["estimate"]
