"""``phase0_runtime.yaml``: which combinations of engine features are tried together, and how."""

from typing import Literal

from pydantic import Field, model_validator

from lora_spec.config.fields import ConfigModel, Dtype, Flag, NonNegative, Positive, PositiveCount, Seed, Text

AxisName = Literal[
    "method", "lora", "prefix_caching", "chunked_prefill", "execution", "scheduling", "sampler", "structured_output"
]


class AxesConfig(ConfigModel):
    """The values that each axis takes; the full matrix is their product."""

    method: tuple[Literal["none", "ngram", "suffix", "draft_model", "eagle3", "mtp"], ...] = Field(
        min_length=1, description="Speculation method."
    )
    lora: tuple[Literal["off", "one", "several", "more_than_slots"], ...] = Field(
        min_length=1, description="Adapters in a batch, against the engine's slots."
    )
    prefix_caching: tuple[Flag, ...] = Field(min_length=1, description="Reuse of KV blocks across requests.")
    chunked_prefill: tuple[Flag, ...] = Field(min_length=1, description="Prefill split and mixed with decoding.")
    execution: tuple[Literal["eager", "compiled"], ...] = Field(min_length=1, description="Eager, or compiled/graphs.")
    scheduling: tuple[Literal["sync", "async"], ...] = Field(min_length=1, description="Engine scheduling mode.")
    sampler: tuple[Literal["greedy", "temperature_greedy_drafts", "temperature_probabilistic_drafts"], ...] = Field(
        min_length=1, description="How the target and the drafts are sampled."
    )
    structured_output: tuple[Flag, ...] = Field(min_length=1, description="Output held to a grammar.")

    @model_validator(mode="after")
    def _values_are_distinct(self) -> "AxesConfig":
        for axis in type(self).model_fields:
            values = getattr(self, axis)
            if len(set(values)) < len(values):
                raise ValueError(f"axis {axis} holds a value twice")
        return self


class PruningRule(ConfigModel):
    """A written reason for not running a part of the matrix."""

    when: dict[AxisName, str | bool] = Field(
        min_length=1, description="Axis values that the rule applies to, all at once."
    )
    status: Literal["meaningless", "conceptual"] = Field(
        description="meaningless: no such combination; conceptual: shown in the matrix, not run here."
    )
    reason: Text = Field(description="Why.")


class CacheSemanticsConfig(ConfigModel):
    """What must hold of the caches; each is tested, none is assumed."""

    prefix_cache_is_per_adapter: Flag = Field(description="A prefix cached under one adapter never serves another.")
    evicted_adapter_is_reloaded: Flag = Field(description="An adapter pushed out of its slot comes back by itself.")
    renamed_weights_are_reread: Flag = Field(description="A name registered anew serves the new weights.")


class Phase0RuntimeConfig(ConfigModel):
    """The whole of ``phase0_runtime.yaml``."""

    vllm_version: Text = Field(description="The version that the matrix holds for.")
    axes: AxesConfig = Field(description="The matrix.")
    pruning: tuple[PruningRule, ...] = Field(description="Rules that prune it, first match wins.")
    cache_semantics: CacheSemanticsConfig = Field(description="Expected behaviour of the caches.")
    dtype: Dtype = Field(description="Number format; texts are comparable in float32 only.")
    num_prompts: PositiveCount = Field(description="Prompts per cell.")
    max_tokens: PositiveCount = Field(description="Output tokens per prompt.")
    temperature: Positive = Field(description="Temperature of the cells that sample.")
    near_tie_margin: NonNegative = Field(description="Top-two logit margin below which two texts may differ.")
    num_speculative_tokens: PositiveCount = Field(description="Depth in cells that speculate.")
    cell_timeout_s: Positive = Field(description="Time limit of a cell's process, s.")
    seed: Seed = Field(description="Seed of prompts and sampling.")

    @model_validator(mode="after")
    def _rules_name_values_of_the_axes(self) -> "Phase0RuntimeConfig":
        for rule in self.pruning:
            for axis, value in rule.when.items():
                allowed = getattr(self.axes, axis)
                if value not in allowed:
                    raise ValueError(
                        f"a pruning rule names {axis}: {value}, which is not on that axis ({list(allowed)})"
                    )
        return self
