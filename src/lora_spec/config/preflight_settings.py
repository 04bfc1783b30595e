"""What the preflight of a tier asks, as plain data: thresholds, the engine, and all weights fetched or made."""

from collections.abc import Collection, Mapping
from typing import Any

from typing_extensions import TypedDict

from lora_spec.config.fields import Dtype, Text, Version
from lora_spec.config.preflight import PreflightConfig
from lora_spec.config.tier import Tier


class PreflightSettings(TypedDict):
    """All that the preflight is told; short, since it is a word of a command that is shown where the preflight fails.

    ``licenses`` maps each licence to the models and adapters under it, ``unpinned`` names those without a revision.
    """

    preflight: PreflightConfig
    vllm_version: Version
    dtype: Dtype
    licenses: dict[Text, list[Text]]
    unpinned: list[Text]


def is_covered(asked: Mapping[str, Any], passed: Mapping[str, Any]) -> bool:
    """Return whether a preflight that passed has asked all that is asked now: these weights or more, else the same."""
    licenses = passed["licenses"]
    return (
        all(asked[key] == passed[key] for key in ("preflight", "vllm_version", "dtype"))
        and set(asked["unpinned"]) <= set(passed["unpinned"])
        and all(set(names) <= set(licenses.get(text, ())) for text, names in asked["licenses"].items())
    )


def preflight_settings(tier: Tier, names: Collection[str]) -> dict[str, Any]:
    """Return what the preflight asks for some adapters of a tier and for its pairs, the appendix left out.

    Only what comes from a hub can be unpinned: everything else is shipped, has a hash, or is made by the workflow.
    """
    models = [model for pair in tier.models.pairs for model in (pair.target, pair.drafter)]
    rows = [tier.adapter_pool.find(name) for name in names]
    licenses: dict[str, list[str]] = {}
    for item in (*models, *rows):
        licenses.setdefault(item.license, []).append(item.name)
    sources = [(model.name, model.source) for model in models] + [(row.name, row) for row in rows]
    return {
        "preflight": None if tier.models.preflight is None else tier.models.preflight.to_dict(),
        "vllm_version": tier.models.engine.vllm_version,
        "dtype": tier.models.engine.dtype,
        "licenses": licenses,
        "unpinned": [name for name, source in sources if getattr(source, "revision", "not from a hub") is None],
    }
