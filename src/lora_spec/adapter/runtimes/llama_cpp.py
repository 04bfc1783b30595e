"""llama.cpp: one alpha for all, divided by the rank of each tensor; alpha 0 means scale 1."""

from lora_spec.adapter.config import DEFAULT_ALPHA
from lora_spec.adapter.inspected import Inspection
from lora_spec.adapter.runtimes.base import Serving


def serve(inspection: Inspection) -> Serving:
    """Return what llama.cpp applies after its own conversion to GGUF."""
    alpha = float(inspection.config.get("lora_alpha", DEFAULT_ALPHA))
    serving = Serving(
        "llama.cpp sources (llama-adapter.h get_scale, convert_lora_to_gguf.py)",
        {module.name: alpha / module.rank if alpha else 1.0 for module in inspection.modules},
    )
    if inspection.config.get("use_rslora"):
        serving.warnings.append("use_rslora is not read: the update is smaller by sqrt(r) than intended")
    if inspection.config.get("alpha_pattern"):
        serving.warnings.append("alpha_pattern is not read")
    if not alpha:
        serving.warnings.append("lora_alpha 0 is taken as scale 1")
    if "A_DORA" in inspection.codes:
        serving.refusals.append("the converter refuses DoRA")
    if "A_MODULES_TO_SAVE" in inspection.codes or "A_VOCAB_CHANGED" in inspection.codes:
        serving.refusals.append("the converter refuses whole weights beside the factors")
    if any(".lora_A.weight" not in module.key and not module.is_embedding for module in inspection.modules):
        serving.refusals.append("the converter refuses tensor names with an adapter name in them")
    return serving
