"""From a tier's engine settings to what the offline engine is started with."""

from collections.abc import Mapping
from typing import Any

_PASSED_ON = ("dtype", "max_model_len", "max_num_seqs", "max_lora_rank", "kv_cache_gib")


def offline_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of ``vllm_offline`` that the ``engine`` block of ``models.yaml`` decides."""
    return {"is_eager": settings["enforce_eager"], **{key: settings[key] for key in _PASSED_ON}}
