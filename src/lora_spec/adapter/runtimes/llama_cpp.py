"""llama.cpp: one alpha for all, divided by the rank of each tensor; alpha 0 means scale 1."""

from lora_spec.adapter.config import DEFAULT_ALPHA
from lora_spec.adapter.inspected import InspectedModule, Inspection
from lora_spec.adapter.runtimes.base import PREFIX, Serving, bare_name, suspect_keys, tell_names

_FACTOR_PARTS = (".lora_A.weight", ".lora_B.weight", ".lora_embedding_A", ".lora_embedding_B")


def serve(inspection: Inspection) -> Serving:
    """Return what llama.cpp applies after its conversion to GGUF, which stops at a tensor it does not know."""
    alpha = float(inspection.config.get("lora_alpha", DEFAULT_ALPHA))
    serving = Serving(
        "llama.cpp sources (convert_lora_to_gguf.py, llama-adapter.cpp); the table of each architecture is not checked",
        {module.name: alpha / module.rank if alpha else 1.0 for module in inspection.modules},
        refusals=_refusals(inspection),
    )
    if inspection.config.get("use_rslora"):
        serving.warnings.append("use_rslora is not read: the update is smaller by sqrt(r) than intended")
    if inspection.config.get("use_dora"):
        serving.warnings.append("use_dora is not read")
    if inspection.config.get("alpha_pattern"):
        serving.warnings.append("alpha_pattern is not read")
    if not alpha:
        serving.warnings.append("lora_alpha 0 is taken as scale 1")
    kept = [name for name in inspection.other_names if _is_norm(name)]
    if kept:
        serving.warnings.append(f"{tell_names(kept)} is converted as a norm weight, which the loader passes over")
    if any(module.type == "lm_head" for module in inspection.modules):
        serving.warnings.append("lm_head is refused where the base ties it to its embeddings")
    return serving


def _refusals(inspection: Inspection) -> list[str]:
    keys = [(module, key) for module in inspection.modules for key in (module.key, module.key_b)]
    unexpected = [key for _, key in keys if not _is_factor(key)]
    unexpected += [name for name in inspection.other_names if not _is_passed(name)]
    suspect = suspect_keys(inspection)
    unmapped = [key for module, key in keys if _is_factor(key) and not _is_mapped(module, key, suspect)]
    found = []
    if unexpected:
        found.append(f"the converter exits on {tell_names(unexpected)}")
    if unmapped:
        found.append(f"the converter cannot map {tell_names(list(dict.fromkeys(unmapped)))} to a tensor of the model")
    if "lora_alpha" not in inspection.config:
        found.append("the converter needs lora_alpha in the config")
    if "adapter_model.safetensors" not in inspection.file_names:
        found.append("the converter does not read sharded adapters")
    return found


def _is_factor(name: str) -> bool:
    return any(part in name for part in _FACTOR_PARTS)


def _is_norm(name: str) -> bool:
    return not _is_factor(name) and ".base_layer.weight" not in name and ("_layernorm" in name or ".norm" in name)


def _is_passed(name: str) -> bool:
    return _is_factor(name) or ".base_layer.weight" in name or _is_norm(name)


def _is_mapped(module: InspectedModule, key: str, suspect: frozenset[str]) -> bool:
    """Tell whether a name is that of a weight once every prefix is taken out, as the converter does."""
    base_name = key.replace(PREFIX, "")
    return not module.is_stacked and key not in suspect and base_name.startswith(f"{bare_name(module)}.lora_")
