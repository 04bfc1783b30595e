"""SGLang: divides alpha by the rank, also for rsLoRA."""

import math

from lora_spec.adapter.inspected import Inspection
from lora_spec.adapter.runtimes.base import Serving, is_canonical, suspect_keys, tell_names


def serve(inspection: Inspection) -> Serving:
    """Return what SGLang applies: alpha / r with both patterns, rsLoRA unread."""
    is_stabilised = bool(inspection.config.get("use_rslora"))
    suspect = suspect_keys(inspection)
    known = [module for module in inspection.modules if module.key not in suspect]
    serving = Serving(
        "SGLang lora_config.py of 2026-09 and issue 40835 (rsLoRA, open); how it matches names is not verified",
        {module.name: module.scale / (math.sqrt(module.rank) if is_stabilised else 1) for module in known},
    )
    if is_stabilised:
        serving.warnings.append("use_rslora is not read: the update is smaller by sqrt(r) than intended")
    if inspection.config.get("use_dora") or "A_DORA" in inspection.codes:
        serving.refusals.append("DoRA is not supported")
    if len(known) < len(inspection.modules):
        serving.warnings.append("names that do not fit the model are taken to match no layer; not verified")
    odd = [module.key for module in known if not is_canonical(module)]
    if odd:
        serving.warnings.append(f"whether names such as {tell_names(odd[:1])} are matched is not verified")
    if any(module.is_stacked for module in known):
        serving.warnings.append("how stacked experts are applied is not verified")
    if inspection.other_names:
        serving.warnings.append(f"what becomes of {tell_names(list(inspection.other_names))} is not verified")
    if "N_UNEVEN_LAYERS" in inspection.codes:
        serving.warnings.append("releases before PR 28199 fail where layers do not all have the same module types")
    return serving
