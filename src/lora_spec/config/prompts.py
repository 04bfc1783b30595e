"""``prompts.yaml``: which prompts are used for what, how many, how long, frozen by hash.

All sets of one traffic kind are slices of the same seeded stream, so slices that do not overlap share no prompt:
the roles are disjoint by construction.
"""

from itertools import pairwise
from typing import Literal

from pydantic import Field, model_validator

from lora_spec.config.fields import ConfigModel, Count, Name, NonNegative, NumPrompts, PositiveCount, Seed, Sha256, Text

PromptSetName = Literal["own", "common"]
Role = Literal["fit", "calibration", "evaluation"]


class PromptSetConfig(ConfigModel):
    """One slice of a stream of prompts, for one role."""

    prompt_set: PromptSetName = Field(
        description="own: the adapter's own domain, its eval split; common: the same prompts for all adapters, from "
        "the calibration split of each domain named, or chat (all held-out chat prompts)."
    )
    role: Role = Field(description="fit: base profile; calibration: probes; evaluation: what is claimed.")
    first_prompt: Count = Field(description="Index of the slice's first prompt in the seeded stream.")
    num_prompts: NumPrompts = Field(description="Prompts of each domain; a prompt is the unit of the bootstrap.")
    max_tokens: PositiveCount = Field(description="Cap on output tokens, the same in both arms.")
    temperature: NonNegative = Field(description="Sampling temperature; 0 is greedy.")
    seed: Seed = Field(description="Seed of the stream; equal for all roles of a prompt set.")
    license: Text = Field(description="Licence of the prompts (SPDX).")
    sha256: dict[Name, Sha256 | None] = Field(
        min_length=1,
        description="SHA-256 of each frozen prompt list (JSON array), by domain; null until frozen.",
    )

    @model_validator(mode="after")
    def _is_measured_greedily(self) -> "PromptSetConfig":
        if self.role == "evaluation" and self.temperature != 0:
            raise ValueError(
                f"temperature {self.temperature:g} of an evaluation set must be 0: acceptance is measured greedily"
            )
        if self.end_prompt > 1_000_000:
            raise ValueError(f"first_prompt {self.first_prompt} lies beyond the millionth prompt; start earlier")
        return self

    @property
    def end_prompt(self) -> int:
        """Return the index after the slice's last prompt."""
        return self.first_prompt + self.num_prompts

    @property
    def num_prompts_per_adapter(self) -> int:
        """Return how many prompts an adapter is run on: those of its own domain, or those of all common domains."""
        return self.num_prompts * (len(self.sha256) if self.prompt_set == "common" else 1)


class PromptsConfig(ConfigModel):
    """The whole of ``prompts.yaml``."""

    sets: tuple[PromptSetConfig, ...] = Field(min_length=2, description="Every slice of prompts that the tier uses.")

    @model_validator(mode="after")
    def _roles_are_disjoint(self) -> "PromptsConfig":
        for name in ("own", "common"):
            slices = sorted((s for s in self.sets if s.prompt_set == name), key=lambda s: s.first_prompt)
            if [s.role for s in slices].count("evaluation") != 1:
                raise ValueError(f"prompt set {name!r} needs exactly one entry with role 'evaluation'")
            if len({s.role for s in slices}) < len(slices):
                raise ValueError(f"prompt set {name!r} has a role twice; merge the entries")
            if len({s.seed for s in slices}) > 1:
                raise ValueError(f"prompt set {name!r} has several seeds; roles are disjoint only in one stream")
            for before, after in pairwise(slices):
                if after.first_prompt < before.end_prompt:
                    raise ValueError(
                        f"prompt set {name!r}: role {after.role!r} starts at prompt {after.first_prompt}, inside "
                        f"role {before.role!r}; start it at {before.end_prompt} or later"
                    )
        return self

    def find(self, prompt_set: PromptSetName, role: Role) -> PromptSetConfig | None:
        """Return the entry for a prompt set and a role, or None where the tier has none."""
        return next((s for s in self.sets if (s.prompt_set, s.role) == (prompt_set, role)), None)

    @property
    def own_evaluation(self) -> PromptSetConfig:
        """Return the adapter's own traffic, on which verdicts rest."""
        return next(s for s in self.sets if (s.prompt_set, s.role) == ("own", "evaluation"))

    @property
    def common_evaluation(self) -> PromptSetConfig:
        """Return the prompts on which all adapters are compared."""
        return next(s for s in self.sets if (s.prompt_set, s.role) == ("common", "evaluation"))
