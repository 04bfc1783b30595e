"""Block ``policy`` of ``gate.yaml``: how a fleet of verdicts becomes depths in an engine."""

from typing import Annotated, Literal

from pydantic import Field

from lora_spec.config.fields import ConfigModel, Flag, Fraction, NonNegative

NumDrafts = Annotated[int, Field(ge=2, le=10_000_000, strict=True)]


class LiveRuleConfig(ConfigModel):
    """When live acceptance overrules the policy; see :mod:`lora_spec.policy.live`."""

    window_drafts: NumDrafts = Field(
        description="Draft steps after which an adapter is judged, and judged anew: fewer react sooner and err more."
    )
    hysteresis: Fraction = Field(
        description="Share of goodput that a change must gain: below it an adapter near break-even would flap."
    )
    min_dwell_s: NonNegative = Field(
        le=1e9, description="Seconds that an adapter stays as it is after a change, so that bursts do not move it."
    )
    probe_interval_s: NonNegative = Field(
        le=1e9,
        description="Seconds from a demotion to the first probe of the policy's own depth; doubled by every failure.",
    )
    probe_drafts: NumDrafts = Field(description="Draft steps of a probe: what finding out again may cost.")
    num_standard_errors: NonNegative = Field(
        le=10, description="How far from its mean over a window the true tokens per step are thought to lie at most."
    )


class PolicyConfig(ConfigModel):
    """From verdicts to ``policy.json`` and a plan of pools."""

    abstained: Literal["standing", "off"] = Field(
        description="Depth of adapters, and of loads, whose verdict abstains: what the fleet runs today, or none."
    )
    is_hot_adapter_merged: Flag = Field(
        description="Whether an adapter that is red and hot gets an engine with its weights merged: it then pays "
        "neither for LoRA nor for a drafter, and takes an engine of its own."
    )
    live: LiveRuleConfig | None = Field(description="When live acceptance overrules the policy; null: never.")
