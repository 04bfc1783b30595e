"""SGLang: divides alpha by the rank, also for rsLoRA."""

from lora_spec.adapter.inspected import Inspection
from lora_spec.adapter.runtimes.base import Serving, alpha_of


def serve(inspection: Inspection) -> Serving:
    """Return what SGLang applies: alpha / r with both patterns, rsLoRA unread."""
    serving = Serving(
        "SGLang sources of 2026-09 (lora_config.py; issue 40835 on rsLoRA open)",
        {module.name: alpha_of(module, inspection) / module.rank for module in inspection.modules},
    )
    if inspection.config.get("use_rslora"):
        serving.warnings.append("use_rslora is not read: the update is smaller by sqrt(r) than intended")
    if inspection.config.get("use_dora") or "A_DORA" in inspection.codes:
        serving.refusals.append("DoRA is not supported")
    if "A_PREFIX_SUSPECT" in inspection.codes:
        serving.scales.clear()
        serving.warnings.append("names that do not fit the model match no layer: no effect")
    if "N_UNEVEN_LAYERS" in inspection.codes:
        serving.warnings.append("releases before PR 28199 fail where layers do not all have the same module types")
    return serving
