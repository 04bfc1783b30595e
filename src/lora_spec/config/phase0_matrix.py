"""The composability matrix in ``phase0_runtime.yaml``: axes, what is pruned and why, which cells are run."""

from typing import Literal

from pydantic import Field, model_validator

from lora_spec.config.fields import ConfigModel, Count, Flag, Positive, Text

AxisName = Literal[
    "method", "lora", "prefix_caching", "chunked_prefill", "execution", "scheduling", "sampler", "structured_output"
]
Method = Literal["none", "ngram", "suffix", "draft_model", "eagle3", "mtp"]
Lora = Literal["off", "one", "several", "beside_base", "more_than_slots"]
Execution = Literal["eager", "compiled"]
Scheduling = Literal["sync", "async"]
Sampler = Literal["greedy", "temperature_greedy_drafts", "temperature_probabilistic_drafts"]


class AxesConfig(ConfigModel):
    """The values that each axis takes; the full matrix is their product."""

    method: tuple[Method, ...] = Field(min_length=1, description="Speculation method.")
    lora: tuple[Lora, ...] = Field(
        min_length=1,
        description="Adapters in a batch, against the engine's slots; beside_base: as several, and the base with them.",
    )
    prefix_caching: tuple[Flag, ...] = Field(min_length=1, description="Reuse of KV blocks across requests.")
    chunked_prefill: tuple[Flag, ...] = Field(min_length=1, description="Prefill split and mixed with decoding.")
    execution: tuple[Execution, ...] = Field(min_length=1, description="Eager, or compiled/graphs.")
    scheduling: tuple[Scheduling, ...] = Field(min_length=1, description="Engine scheduling mode.")
    sampler: tuple[Sampler, ...] = Field(min_length=1, description="How the target and the drafts are sampled.")
    structured_output: tuple[Flag, ...] = Field(min_length=1, description="Output held to a grammar.")

    @model_validator(mode="after")
    def _values_are_distinct(self) -> "AxesConfig":
        for axis in type(self).model_fields:
            values = getattr(self, axis)
            if len(set(values)) < len(values):
                raise ValueError(f"axis {axis} holds a value twice")
        return self


class CellConfig(ConfigModel):
    """One combination: a value on every axis."""

    method: Method = Field(description="Speculation method.")
    lora: Lora = Field(description="Adapters in a batch.")
    prefix_caching: Flag = Field(description="Reuse of KV blocks.")
    chunked_prefill: Flag = Field(description="Split prefill.")
    execution: Execution = Field(description="Eager or compiled.")
    scheduling: Scheduling = Field(description="Scheduling mode.")
    sampler: Sampler = Field(description="Sampling of target and drafts.")
    structured_output: Flag = Field(description="Output held to a grammar.")


class PruningRule(ConfigModel):
    """A written reason for not running a part of the matrix."""

    when: dict[AxisName, str | bool | tuple[str | bool, ...]] = Field(
        min_length=1, description="Axis values that the rule applies to, all at once; a list is any of its values."
    )
    status: Literal["meaningless", "conceptual", "probe"] = Field(
        description=(
            "meaningless: no such combination; conceptual: shown in the matrix, not run here; probe: the engine's "
            "source says that it refuses or replaces the setting, so it is run only as a neighbour of a baseline."
        )
    )
    reason: Text = Field(description="Why.")

    def values(self, axis: AxisName) -> tuple[str | bool, ...]:
        """Return the values of one named axis that the rule applies to."""
        named = self.when[axis]
        return named if isinstance(named, tuple) else (named,)


class SelectionConfig(ConfigModel):
    """Which runnable cells are run: a rule, so that nobody picks them by hand."""

    baseline: CellConfig = Field(description="The cell that operators run today.")
    variants: tuple[dict[AxisName, str | bool], ...] = Field(
        description="Further baselines, each by the values in which it differs from the first."
    )
    has_neighbours: Flag = Field(description="Also run every cell that differs from a baseline on one axis.")
    coverage_strength: Count = Field(
        le=2,
        description="Add cells until each axis value (1) or pair of values (2) of a runnable cell is covered; 0: none.",
    )

    @property
    def baselines(self) -> tuple[dict[str, str | bool], ...]:
        """Return all baselines, each with a value on every axis."""
        first = self.baseline.to_dict()
        return (first, *({**first, **variant} for variant in self.variants))


class FallbackWeights(ConfigModel):
    """What giving up an axis costs an operator: a fallback is the working cell with the smallest sum.

    Structured output, the kind of sampling and the adapters themselves are what was asked for, so they are never
    given up and have no weight.
    """

    method: Positive = Field(description="Another speculation method, or none: speed is lost.")
    lora: Positive = Field(description="Other slots or fewer adapters per engine: more engines are needed.")
    prefix_caching: Positive = Field(description="Cached prefixes: long shared prompts are computed anew.")
    chunked_prefill: Positive = Field(description="Split prefill: long prompts stall the batch.")
    execution: Positive = Field(description="Compiled execution: slower steps, faster starts.")
    scheduling: Positive = Field(description="Scheduling mode: a few percent of a step.")
    sampler: Positive = Field(description="How drafts are sampled: acceptance changes, the output's law does not.")
