"""``phase0_runtime.yaml``: which combinations of engine features are tried together, and how."""

import re
from typing import Literal

from pydantic import Field, model_validator

from lora_spec.config.fields import (
    ConfigModel,
    Dtype,
    Flag,
    Name,
    NonNegative,
    Positive,
    PositiveCount,
    PositiveDepth,
    Seed,
    Text,
)
from lora_spec.config.phase0_matrix import AxesConfig, FallbackWeights, PruningRule, SelectionConfig


class ServedAdaptersConfig(ConfigModel):
    """The adapters behind the values of the axis ``lora``."""

    names: tuple[Name, ...] = Field(
        min_length=3,
        description="Rows of adapter_pool.yaml: one takes the first; several and beside_base as many as there are "
        "slots; more_than_slots all. Their updates should change greedy text, or it cannot be seen whether they act.",
    )
    num_slots: PositiveCount = Field(description="Adapters that the engine holds at once (max_loras).")

    @model_validator(mode="after")
    def _there_are_more_adapters_than_slots(self) -> "ServedAdaptersConfig":
        if len(set(self.names)) < len(self.names):
            raise ValueError("names holds an adapter twice")
        if not 2 <= self.num_slots < len(self.names):
            raise ValueError(f"num_slots {self.num_slots} must be at least 2 and below the {len(self.names)} names")
        return self


class GrammarConfig(ConfigModel):
    """What structured output is held to."""

    pattern: Text = Field(description="Regular expression of the whole output, given to the engine.")
    example: Text = Field(
        description="Shortest text that matches: an output cut by the cap is held against its ends, one by one."
    )

    @model_validator(mode="after")
    def _example_matches(self) -> "GrammarConfig":
        try:
            is_match = re.fullmatch(self.pattern, self.example) is not None
        except re.error as error:
            raise ValueError(f"pattern is not a regular expression ({error})") from error
        if not is_match:
            raise ValueError("example does not match pattern")
        return self


class CacheSemanticsConfig(ConfigModel):
    """What is expected of the caches; each is tested, none is assumed.

    "Re-registered" is a LoRA name that is used again with other weights.
    """

    prefix_cache_is_per_adapter: Flag = Field(description="A prefix cached under one adapter never serves another.")
    evicted_adapter_is_reloaded: Flag = Field(description="An adapter pushed out of its slot comes back by itself.")
    new_id_and_path_are_reread: Flag = Field(description="Re-registered under a new id and path: new weights serve.")
    new_id_on_same_path_is_reread: Flag = Field(
        description="Re-registered under a new id, files replaced in place: new weights serve, old prefixes do not."
    )
    same_id_is_reread: Flag = Field(description="Re-registered under the same id and a new path: new weights serve.")
    same_id_with_load_inplace_is_reread: Flag = Field(description="The same with load_inplace: new weights serve.")
    weights_of_one_name_share_a_batch: Flag = Field(
        description="Old and new weights under one name and two ids in one batch, as in a rolling update: both serve."
    )


class Phase0RuntimeConfig(ConfigModel):
    """The whole of ``phase0_runtime.yaml``."""

    vllm_version: Text = Field(description="The version that the matrix holds for.")
    axes: AxesConfig = Field(description="The matrix.")
    pruning: tuple[PruningRule, ...] = Field(description="Rules that prune it, first match wins.")
    selection: SelectionConfig = Field(description="Which of the remaining cells are run.")
    fallback_weights: FallbackWeights = Field(description="What a fallback gives up first.")
    cache_semantics: CacheSemanticsConfig = Field(description="Expected behaviour of the caches.")
    cache_tests: tuple[Literal["coming_and_going", "reregistration", "rolling_update"], ...] = Field(
        description="Processes that test it, each once; each decides some of its keys."
    )
    adapters: ServedAdaptersConfig = Field(description="The adapters that are served.")
    preamble: Text = Field(
        description="Put before each prompt: fills cache blocks that prompts share, and more than one chunk."
    )
    grammar: GrammarConfig = Field(description="Structured output.")
    dtype: Dtype = Field(description="Number format; texts are comparable in float32 only.")
    num_prompts: PositiveCount = Field(description="Prompts per cell, the first of the common evaluation prompts.")
    max_tokens: PositiveCount = Field(description="Output tokens per prompt.")
    block_size: PositiveCount = Field(description="Tokens per KV cache block; small, so that short prompts fill some.")
    max_num_seqs: PositiveCount = Field(description="Requests in a batch, at most.")
    chunk_tokens: PositiveCount = Field(
        description="Token budget of a step with chunked prefill; below a prompt, and room for a batch of verify steps."
    )
    temperature: Positive = Field(description="Temperature of the cells that sample.")
    near_tie_margin: NonNegative = Field(description="Top-two logit margin below which two texts may differ.")
    max_abs_z: Positive = Field(
        description="Sampled text is wrong if its log-likelihood is further from its expectation, in standard errors."
    )
    num_speculative_tokens: PositiveDepth = Field(description="Depth in cells that speculate.")
    ngram_lookup_tokens: PositiveCount = Field(
        description="Tokens that an n-gram drafter looks up; few, so that it drafts on short texts at all."
    )
    min_drafts: PositiveCount = Field(description="Draft steps below which a cell says that it hardly speculated.")
    cell_timeout_s: Positive = Field(description="Time limit of a cell's process, s.")
    seed: Seed = Field(description="Seed of the engine.")

    @model_validator(mode="after")
    def _values_lie_on_the_axes(self) -> "Phase0RuntimeConfig":
        named = [("a baseline", axis, value) for cell in self.selection.baselines for axis, value in cell.items()]
        for rule in self.pruning:
            named += [("a pruning rule", axis, value) for axis in rule.when for value in rule.values(axis)]
        for what, axis, value in named:
            allowed = getattr(self.axes, axis)
            if value not in allowed:
                raise ValueError(f"{what} names {axis}: {value}, which is not on that axis ({list(allowed)})")
        if len(set(self.cache_tests)) < len(self.cache_tests):
            raise ValueError("cache_tests holds a test twice")
        return self

    @model_validator(mode="after")
    def _a_chunk_holds_a_batch_of_verify_steps(self) -> "Phase0RuntimeConfig":
        needed = self.max_num_seqs * (self.num_speculative_tokens + 1)
        if self.chunk_tokens < needed:
            raise ValueError(
                f"chunk_tokens {self.chunk_tokens} must be at least max_num_seqs * (num_speculative_tokens + 1) = "
                f"{needed}: vLLM refuses LoRA with speculation below"
            )
        return self
