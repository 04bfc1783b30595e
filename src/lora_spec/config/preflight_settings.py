"""What the preflight of a tier asks, as plain data: thresholds, the engine, and all weights fetched or made."""

from collections.abc import Collection
from typing import Any

from typing_extensions import TypedDict

from lora_spec.config.fields import Dtype, Flag, Text, Version
from lora_spec.config.preflight import PreflightConfig
from lora_spec.config.tier import Tier


class Weights(TypedDict):
    """A model or an adapter: under which licence it stands, and whether its bytes are fixed."""

    name: Text
    license: Text
    is_pinned: Flag


class PreflightSettings(TypedDict):
    """All that the preflight is told."""

    preflight: PreflightConfig
    vllm_version: Version
    dtype: Dtype
    weights: list[Weights]


def preflight_settings(tier: Tier, names: Collection[str]) -> dict[str, Any]:
    """Return what the preflight asks for some adapters of a tier and for its pairs, the appendix left out.

    Only what comes from a hub can be unpinned: everything else is shipped, has a hash, or is made by the workflow.
    """
    models = [model for pair in tier.models.pairs for model in (pair.target, pair.drafter)]
    rows = [tier.adapter_pool.find(name) for name in names]
    told = [(model, model.source) for model in models] + [(row, row) for row in rows]
    return {
        "preflight": None if tier.models.preflight is None else tier.models.preflight.to_dict(),
        "vllm_version": tier.models.engine.vllm_version,
        "dtype": tier.models.engine.dtype,
        "weights": [
            {
                "name": item.name,
                "license": item.license,
                "is_pinned": getattr(source, "revision", "not from a hub") is not None,
            }
            for item, source in told
        ],
    }
