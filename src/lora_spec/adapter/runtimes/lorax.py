"""LoRAX and TGI: one rank and one alpha for all; a module type absent from one layer is dropped in all."""

import math

from lora_spec.adapter.config import DEFAULT_ALPHA
from lora_spec.adapter.inspected import InspectedModule, Inspection
from lora_spec.adapter.runtimes.base import Serving


def serve(inspection: Inspection) -> Serving:
    """Return what LoRAX applies; without the base, layers above the highest adapted one stay unknown."""
    alpha = float(inspection.config.get("lora_alpha", DEFAULT_ALPHA))
    dropped = _dropped_types(inspection.modules)
    is_stabilised = bool(inspection.config.get("use_rslora"))
    serving = Serving(
        "LoRAX sources (adapters/lora.py); TGI shares the code",
        {
            module.name: alpha / (math.sqrt(module.rank) if is_stabilised else module.rank)
            for module in inspection.modules
            if module.type not in dropped
        },
    )
    for kind in sorted(dropped):
        serving.warnings.append(f"{kind} is absent from some layers, so it is silently dropped in all of them")
    if inspection.config.get("alpha_pattern"):
        serving.warnings.append("alpha_pattern is not read")
    if len({module.rank for module in inspection.modules}) > 1:
        serving.refusals.append("modules of different ranks cannot be stacked")
    if "A_DORA" in inspection.codes:
        serving.refusals.append("DoRA is not supported")
    if "A_MODULES_TO_SAVE" in inspection.codes:
        serving.warnings.append("modules_to_save is not applied")
    return serving


def _dropped_types(modules: tuple[InspectedModule, ...]) -> set[str]:
    layers: dict[str, set[int]] = {}
    for module in modules:
        if module.layer is not None:
            layers.setdefault(module.type, set()).add(module.layer)
    highest = max((max(held) for held in layers.values()), default=-1)
    return {kind for kind, held in layers.items() if len(held) <= highest}
