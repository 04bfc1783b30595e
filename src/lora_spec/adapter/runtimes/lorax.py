"""LoRAX and TGI: one rank and one alpha for all; a module type absent from one layer is dropped in all."""

import math

from lora_spec.adapter.config import DEFAULT_ALPHA, DEFAULT_RANK
from lora_spec.adapter.inspected import InspectedModule, Inspection
from lora_spec.adapter.runtimes.base import Serving, is_canonical, suspect_keys, tell_names

_MIN_RANK = 8


def serve(inspection: Inspection) -> Serving:
    """Return what LoRAX applies; without the base, layers above the highest adapted one stay unknown."""
    rank = inspection.config.get("r", DEFAULT_RANK)
    alpha = float(inspection.config.get("lora_alpha", DEFAULT_ALPHA))
    scale = alpha / (math.sqrt(rank) if inspection.config.get("use_rslora") else rank)
    suspect = suspect_keys(inspection)
    known = [module for module in inspection.modules if _is_looked_up(module) and module.key not in suspect]
    dropped = _dropped_types(known)
    serving = Serving(
        "LoRAX sources (adapters/lora.py of 2026-05); TGI shares the code; which modules a model has is not checked",
        {module.name: scale for module in known if module.type not in dropped},
        refusals=_refusals(known),
    )
    looked_up = {module.name for module in known}
    unknown = [module.key for module in inspection.modules if module.name not in looked_up]
    if unknown:
        what = f"only base_model.model.NAME.lora_A.weight of a plain layer is looked up, so not {tell_names(unknown)}"
        serving.warnings.append(what)
    for kind in sorted(dropped):
        serving.warnings.append(f"{kind} is absent from some layers, so it is silently dropped in all of them")
    if inspection.config.get("alpha_pattern") or inspection.config.get("rank_pattern"):
        serving.warnings.append(
            "rank_pattern and alpha_pattern are not read: lora_alpha is divided by r for all modules"
        )
    if any(max(module.rank, _MIN_RANK) != rank for module in known):
        what = (
            "the rank of the tensors, padded to 8, takes the place of r for the module types after the first; not tried"
        )
        serving.warnings.append(what)
    if inspection.other_names:
        serving.warnings.append(f"only factors are applied, not {tell_names(list(inspection.other_names))}")
    return serving


def _is_looked_up(module: InspectedModule) -> bool:
    return is_canonical(module) and not module.is_embedding and not module.is_stacked


def _refusals(known: list[InspectedModule]) -> list[str]:
    ranks: dict[str, set[int]] = {}
    for module in known:
        ranks.setdefault(module.type, set()).add(max(module.rank, _MIN_RANK))
    mixed = sorted(kind for kind, held in ranks.items() if len(held) > 1)
    return [f"layers of different ranks cannot be stacked ({tell_names(mixed)})"] if mixed else []


def _dropped_types(modules: list[InspectedModule]) -> set[str]:
    layers: dict[str, set[int]] = {}
    for module in modules:
        if module.layer is not None:
            layers.setdefault(module.type, set()).add(module.layer)
    highest = max((max(held) for held in layers.values()), default=-1)
    return {kind for kind, held in layers.items() if len(held) <= highest}
