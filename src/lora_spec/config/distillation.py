"""How a target's own answers are written, and how a drafter is distilled on them."""

from typing import Annotated

from pydantic import Field, model_validator

from lora_spec.config.fields import (
    ConfigModel,
    Count,
    NonNegative,
    NumPrompts,
    Positive,
    PositiveCount,
    RelativePath,
    Seed,
)


class TrajectoriesConfig(ConfigModel):
    """Which chat prompts a target answers, in shards that survive an interrupted run."""

    num_greedy_prompts: Annotated[Count, Field(le=100_000)] = Field(
        description="Prompts answered greedily: the traffic that greedy serving sees."
    )
    num_sampled_prompts: Annotated[Count, Field(le=100_000)] = Field(
        description="Prompts answered with sampling: widens the text seen in training."
    )
    num_heldout_prompts: NumPrompts = Field(description="Held-out prompts, for the learning curve.")
    temperature: Positive = Field(description="Sampling temperature of the sampled part; greedy is 0 by itself.")
    max_tokens: PositiveCount = Field(description="Output tokens per prompt; short answers give more distinct prompts.")
    prompts_per_shard: PositiveCount = Field(
        description="Prompts per shard; a shard takes a minute or so, then is kept."
    )
    greedy_prompt_seed: Seed = Field(description="Seed of the greedy prompts.")
    sampled_prompt_seed: Seed = Field(description="Seed of the sampled prompts; another one, to draw other prompts.")
    heldout_prompt_seed: Seed = Field(description="Seed of the held-out prompts.")
    sampling_seed: Seed = Field(description="Seed of the first sampled shard; the next shards count up from it.")


TRAJECTORIES = tuple(TrajectoriesConfig.model_fields)
"""What decides which text a target writes, also where more is said beside it."""


class DistillationConfig(TrajectoriesConfig):
    """How the drafter is distilled on the target's own trajectories."""

    trajectories: RelativePath | None = Field(
        description="Folder of shipped shards, written by this recipe; null lets the target write them anew (an hour)."
    )
    num_epochs: PositiveCount = Field(description="Passes over the trajectories.")
    learning_rate: Positive = Field(description="Peak learning rate of AdamW, decaying to zero.")
    batch_tokens: PositiveCount = Field(description="Tokens per optimiser step, padding not counted.")
    num_top_targets: PositiveCount = Field(description="Most likely target tokens that are matched per position.")
    num_sampled_tokens: Count = Field(
        description="Tokens outside the text drawn per step to stand for the rest of the vocabulary."
    )
    num_warmup_steps: PositiveCount = Field(description="Steps over which the learning rate rises to its peak.")
    weight_decay: NonNegative = Field(description="Decoupled weight decay of AdamW.")
    save_every_steps: PositiveCount = Field(description="Steps between checkpoints; a killed run loses at most these.")
    early_step: PositiveCount = Field(description="Checkpoint that is kept as the early, weaker drafter.")
    num_threads: PositiveCount = Field(description="Threads of torch; they decide the last bits of the weights.")
    training_seed: Seed = Field(description="Seed of the order of training sequences.")

    @model_validator(mode="after")
    def _early_step_is_a_checkpoint(self) -> "DistillationConfig":
        if self.early_step % self.save_every_steps:
            raise ValueError(
                f"early_step {self.early_step} is no checkpoint; make it a multiple of save_every_steps "
                f"{self.save_every_steps}"
            )
        return self
