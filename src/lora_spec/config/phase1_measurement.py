"""``phase1_measurement.yaml``: the paired measurement of acceptance, the step times, and the effect rule."""

from typing import Literal

from pydantic import Field, model_validator

from lora_spec.config.adapter_pool import Stratum
from lora_spec.config.cost_parts import CostPartsConfig
from lora_spec.config.fields import (
    BatchSize,
    BatchSizes,
    ConfigModel,
    Count,
    Depth,
    Flag,
    Fraction,
    NonNegative,
    NumDraws,
    NumPrompts,
    NumTrials,
    OpenFraction,
    PositiveCount,
    PositiveDepth,
    Seed,
)


class StepTimeConfig(ConfigModel):
    """Step-time cells T_K(B), measured with LoRA on, interleaved, alone on the machine."""

    depths: tuple[Depth, ...] = Field(min_length=2, description="Depths K timed; 0 is speculation off in this engine.")
    batch_sizes: BatchSizes = Field(
        min_length=2, description="Batch sizes B timed, requests; two or more, or nothing tells how time grows with B."
    )
    num_trials: NumTrials = Field(description="Interleaved repetitions of all cells; they show the drift.")
    num_steps: PositiveCount = Field(description="Timed engine steps per cell and trial.")
    num_warmup_steps: Count = Field(description="Untimed steps before them: the first steps fill caches.")
    num_context_tokens: PositiveCount = Field(description="Prompt tokens per request: attention grows with them.")
    lora_rank: PositiveCount = Field(description="Rank of the adapter served while timing.")
    max_other_cores: NonNegative = Field(
        description="Cores that other processes may use during a cell; above it the cell is discarded and run again."
    )
    max_wait_s: NonNegative = Field(
        description="Seconds to wait in all for a quiet machine before the measurement is given up."
    )
    seed: Seed = Field(description="Seed of the order in which the cells of a trial run.")

    @model_validator(mode="after")
    def _depths_hold_zero_once(self) -> "StepTimeConfig":
        if 0 not in self.depths or len(set(self.depths)) < len(self.depths):
            raise ValueError("depths must be distinct and hold 0, the engine without drafts")
        return self

    @property
    def num_tokens(self) -> int:
        """Return how long a timed request can get: one batch runs through all depths, each step up to K + 1 tokens."""
        return self.num_context_tokens + sum(
            (self.num_warmup_steps + self.num_steps) * (depth + 1) for depth in self.depths
        )


class CountingConfig(ConfigModel):
    """How acceptance is counted: with what weights texts are written, and which drafters replay them."""

    weights: Literal["lora", "merged"] = Field(
        description="lora: live counters with LoRA on. merged: texts from merged weights without drafts, three times "
        "faster on a CPU; acceptance by replay alone."
    )
    drafters: tuple[Literal["final", "early", "ngram"], ...] = Field(
        min_length=1, description="Drafters that replay every text; verdicts rest on final, the others show robustness."
    )
    is_base_text_rescored: Flag = Field(
        description="Judge the drafter along the base's texts too, by what the adapted target would say (merged only)."
    )
    max_num_seqs: BatchSize = Field(description="Batch in which merged weights write: nothing is timed.")
    num_live_prompts: NumPrompts = Field(description="Prompts per adapter that live counters confirm.")

    @model_validator(mode="after")
    def _is_possible(self) -> "CountingConfig":
        if "final" not in self.drafters or len(set(self.drafters)) < len(self.drafters):
            raise ValueError("drafters must be distinct and hold final, on which the verdicts rest")
        if self.is_base_text_rescored and self.weights == "lora":
            raise ValueError("is_base_text_rescored needs weights: merged, since the reader has the merged weights")
        return self


class EffectGateConfig(ConfigModel):
    """The rule GO / INVESTIGATE / STOP, fixed before anything is measured."""

    stratum: Stratum = Field(description="Adapters that the rule is about.")
    min_accepted_loss: Fraction = Field(description="GO needs at least this pooled share of accepted drafts lost.")
    min_goodput_loss: Fraction = Field(description="GO needs at least this share of goodput lost by ignoring it.")
    batch_size: PositiveCount = Field(description="Load cell in which goodput is compared, requests per batch.")


class Phase1MeasurementConfig(ConfigModel):
    """The whole of ``phase1_measurement.yaml``."""

    num_speculative_tokens: PositiveDepth = Field(description="Depth of live runs; replay gives every other.")
    max_depth: PositiveDepth = Field(description="Deepest depth counted by replay, which gives every K at once.")
    arms: tuple[Literal["base", "adapted"], ...] = Field(
        min_length=2, max_length=2, description="Paired arms, in the order in which a pair is run."
    )
    num_live_adapters: PositiveCount | None = Field(
        description="Adapters confirmed by live counters, spread over the strata; null is all of them."
    )
    counting: CountingConfig = Field(description="The counting campaign.")
    min_drafts: PositiveCount = Field(description="Fewest drafts per arm for a record to count as measured.")
    num_warmup_prompts: Count = Field(description="Prompts run and discarded before the window opens.")
    num_bootstrap_draws: NumDraws = Field(description="Cluster-bootstrap draws over prompts.")
    level: OpenFraction = Field(description="Level of all intervals.")
    seed: Seed = Field(description="Seed of the bootstrap and of the order of arms.")
    step_time: StepTimeConfig = Field(description="The timing campaign, apart from counting.")
    cost_parts: CostPartsConfig = Field(description="The second timing campaign: what a step is made of.")
    effect_gate: EffectGateConfig = Field(description="The effect rule.")

    @model_validator(mode="after")
    def _is_coherent(self) -> "Phase1MeasurementConfig":
        if set(self.arms) != {"base", "adapted"}:
            raise ValueError("arms must be base and adapted, each once")
        if self.max_depth < self.num_speculative_tokens:
            raise ValueError(
                f"max_depth {self.max_depth} is below num_speculative_tokens {self.num_speculative_tokens}; raise it"
            )
        if self.effect_gate.batch_size not in self.step_time.batch_sizes:
            raise ValueError(
                f"effect_gate.batch_size {self.effect_gate.batch_size} is not timed; "
                f"step_time.batch_sizes holds {list(self.step_time.batch_sizes)}"
            )
        return self
