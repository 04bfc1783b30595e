"""vLLM: refuses what it cannot serve; since it reads the patterns, scales agree with PEFT's."""

from collections.abc import Mapping
from typing import Any

from lora_spec.adapter.inspected import Inspection
from lora_spec.adapter.runtimes.base import Serving

_KEPT_INITS = ("gaussian", "eva", "orthogonal", "mica", "lora_ga")
_REFUSED_FIELDS = {
    "use_dora": "DoRA",
    "lora_bias": "LoRA bias",
    "alora_invocation_tokens": "activated LoRA",
    "layer_replication": "layer replication",
    "use_bdlora": "block-diagonal LoRA",
    "use_qalora": "QALoRA",
}
_REFUSED_TENSORS = {
    "A_TOKEN_ROWS": "rows of trainable tokens",
    "A_DORA": "magnitude vectors",
    "A_BIAS": "biases",
    "A_VOCAB_CHANGED": "whole vocabulary matrices",
    "A_UNKNOWN_TENSOR": "tensors that are no factors",
    "N_IGNORED_TENSOR": "buffers",
}


def serve(inspection: Inspection) -> Serving:
    """Return what vLLM applies."""
    known = [] if "A_PREFIX_SUSPECT" in inspection.codes else [m for m in inspection.modules if _is_found(m.key)]
    serving = Serving(
        "vLLM 0.32.0, lora/peft_helper.py and lora/lora_model.py",
        {module.name: module.scale for module in known},
        refusals=_refusals(inspection),
    )
    if len(known) < len(inspection.modules):
        serving.warnings.append("names that do not fit the model are loaded but matched by no layer: no effect")
    if inspection.config.get("rank_pattern") or inspection.config.get("alpha_pattern"):
        serving.warnings.append("older releases read r and lora_alpha only and ignore both patterns")
    largest = max((module.rank for module in inspection.modules), default=0)
    if largest > 16:
        serving.warnings.append(f"rank {largest} needs --max-lora-rank {largest} or more (the default is 16)")
    return serving


def _is_found(key: str) -> bool:
    return not key.removeprefix("base_model.model.").startswith("base_model.")


def _refusals(inspection: Inspection) -> list[str]:
    config = inspection.config
    found = [f"{what} ({name}) is not supported" for name, what in _REFUSED_FIELDS.items() if config.get(name)]
    missing = [name for name in ("r", "lora_alpha", "target_modules") if name not in config]
    found += [f"the config lacks {', '.join(missing)}"] if missing else []
    found += _field_refusals(config)
    if any(not module.key.endswith((".lora_A.weight", ".lora_embedding_A")) for module in inspection.modules):
        found.append("tensor names with an adapter name in them are not supported")
    found += [
        f"{what} in the file are not supported" for code, what in _REFUSED_TENSORS.items() if _holds(code, inspection)
    ]
    if "adapter_model.safetensors" not in inspection.file_names:
        found.append("sharded adapters are not read")
    return found


def _field_refusals(config: Mapping[str, Any]) -> list[str]:
    found = []
    init = config.get("init_lora_weights", True)
    if isinstance(init, str) and init.lower() not in _KEPT_INITS:
        found.append(f"init_lora_weights {init!r} changes the base model")
    saved = [name for name in config.get("modules_to_save") or () if name not in ("classifier", "score")]
    if saved:
        found.append(f"modules_to_save {saved} is not supported")
    if config.get("bias", "none") != "none":
        found.append("bias other than none is not supported")
    return found


def _holds(code: str, inspection: Inspection) -> bool:
    return any("." in place for place in inspection.findings.places(code))
