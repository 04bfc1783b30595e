"""vLLM: refuses what it cannot serve; since it reads the patterns, scales agree with PEFT's."""

from collections.abc import Mapping
from typing import Any

from lora_spec.adapter.config import DEFAULT_RANK
from lora_spec.adapter.inspected import InspectedModule, Inspection
from lora_spec.adapter.runtimes.base import PREFIX, Serving, bare_name, suspect_keys, tell_names
from lora_spec.printing import printable

_DEFAULT_MAX_RANK = 16
_KEPT_INITS = ("gaussian", "eva", "orthogonal", "mica", "lora_ga")
_REFUSED_FIELDS = {
    "use_dora": "DoRA",
    "lora_bias": "LoRA bias",
    "alora_invocation_tokens": "activated LoRA",
    "layer_replication": "layer replication",
    "use_bdlora": "block-diagonal LoRA",
    "use_qalora": "QALoRA",
}
_FACTOR_ENDS = (".lora_A.weight", ".lora_B.weight", ".lora_embedding_A", ".lora_embedding_B")
_SKIPPED_ENDS = (".embed_tokens.base_layer.weight", ".lm_head.base_layer.weight")


def serve(inspection: Inspection) -> Serving:
    """Return what vLLM applies; whether the model has a module of a name is not known without the model."""
    suspect = suspect_keys(inspection)
    known = [module for module in inspection.modules if _is_found(module, suspect)]
    serving = Serving(
        "vLLM 0.32.0, lora/peft_helper.py, lora/lora_model.py and lora/utils.py",
        {module.name: module.scale for module in known},
        refusals=_refusals(inspection),
    )
    if len(known) < len(inspection.modules) and not serving.refusals:
        serving.warnings.append("names that do not fit the model are loaded but matched by no layer: no effect")
    if inspection.config.get("rank_pattern") or inspection.config.get("alpha_pattern"):
        serving.warnings.append("older releases read r and lora_alpha only and ignore both patterns")
    if any(module.is_stacked for module in inspection.modules) and not _is_known_pair(inspection.config):
        what = "stacked parameters other than gate_up_proj with down_proj are taken for those two; not verified further"
        serving.warnings.append(what)
    largest = max([inspection.config.get("r", DEFAULT_RANK), *(inspection.config.get("rank_pattern") or {}).values()])
    if largest > _DEFAULT_MAX_RANK:
        what = f"rank {largest} needs --max-lora-rank {largest} or more (the default is {_DEFAULT_MAX_RANK})"
        serving.warnings.append(what)
    return serving


def _is_found(module: InspectedModule, suspect: frozenset[str]) -> bool:
    return all(_parse(key) == bare_name(module) and key not in suspect for key in (module.key, module.key_b))


def _parse(key: str) -> str | None:
    """Return the module that vLLM's parser reads from a tensor name, None where it raises."""
    name = key.replace(PREFIX, "") if key.startswith(PREFIX) else key
    end = next((end for end in _FACTOR_ENDS if name.endswith(end)), None)
    return None if end is None else name.removesuffix(end)


def _is_read(name: str) -> bool:
    """Tell whether vLLM's loader takes or skips a tensor that is no factor, instead of raising."""
    words = name.split(".")
    is_classifier = words[-1] in ("weight", "bias") and len(words) > 1 and words[-2] in ("score", "classifier")
    return name.endswith(_SKIPPED_ENDS) or is_classifier or _parse(name) is not None


def _is_known_pair(config: Mapping[str, Any]) -> bool:
    words = {entry.rpartition(".")[2] for entry in config.get("target_parameters") or ()}
    return words == {"gate_up_proj", "down_proj"}


def _refusals(inspection: Inspection) -> list[str]:
    config = inspection.config
    found = [f"{what} ({name}) is not supported" for name, what in _REFUSED_FIELDS.items() if config.get(name)]
    missing = [name for name in ("r", "lora_alpha", "target_modules") if name not in config]
    found += [f"the config lacks {', '.join(missing)}"] if missing else []
    found += _field_refusals(config)
    keys = [key for module in inspection.modules for key in (module.key, module.key_b)]
    if any(_parse(key) is None for key in keys):
        found.append("tensor names with an adapter name in them are not supported")
    raised = [name for name in inspection.other_names if not _is_read(name)]
    found += [f"its parser raises on {tell_names(raised)}"] if raised else []
    if "adapter_model.safetensors" not in inspection.file_names:
        found.append("sharded adapters are not read")
    return found


def _field_refusals(config: Mapping[str, Any]) -> list[str]:
    found = []
    init = config.get("init_lora_weights", True)
    if isinstance(init, str) and init.lower() not in _KEPT_INITS:
        found.append(f"init_lora_weights {printable(init, 60)} changes the base model")
    saved = [name for name in config.get("modules_to_save") or () if name not in ("classifier", "score")]
    if saved:
        found.append(f"modules_to_save with {tell_names(saved)} is not supported")
    bias = config.get("bias", "none")
    if bias != "none":
        shown = "null" if bias is None else printable(bias, 60)
        found.append(f"bias is {shown}; only the text none is accepted")
    if any(type(rank) is not int for rank in (config.get("rank_pattern") or {}).values()):
        found.append("rank_pattern holds a number with a decimal point; only whole numbers are accepted")
    return found
