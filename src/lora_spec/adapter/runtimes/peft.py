"""PEFT itself: the intended update, if its strict names are met."""

from lora_spec.adapter.inspected import Inspection
from lora_spec.adapter.runtimes.base import Serving, is_canonical, suspect_keys


def serve(inspection: Inspection) -> Serving:
    """Return what PEFT 0.21 applies: it loads with strict=False, so names that it does not know change nothing."""
    suspect = suspect_keys(inspection)
    known = [module for module in inspection.modules if is_canonical(module) and module.key not in suspect]
    serving = Serving("PEFT 0.21.2, save_and_load.py and tuners/lora", {module.name: module.scale for module in known})
    if len(known) < len(inspection.modules):
        missing = len(inspection.modules) - len(known)
        serving.warnings.append(f"{missing} modules bear names that PEFT does not know: it only warns and skips them")
    if inspection.config.get("rank_pattern") and inspection.config.get("alpha_pattern"):
        serving.warnings.append("PEFT 0.6 to 0.13 looked up both patterns by one key and may apply another alpha")
    return serving
