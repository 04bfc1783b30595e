"""``adapter_pool.yaml``: one row per adapter, with the recipe that makes it or the place it is taken from."""

from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, model_validator

from lora_spec.config.fields import (
    ConfigModel,
    Count,
    Flag,
    Name,
    NonNegative,
    Positive,
    PositiveCount,
    RelativePath,
    RepoId,
    Revision,
    Seed,
    Sha256,
    Text,
)

Stratum = Literal["benign", "moderate", "aggressive", "control"]


class _AdapterRow(ConfigModel):
    name: Name = Field(description="Unique name, used in paths and as the served name.")
    domain: Name = Field(description="Task whose text it is trained on and whose prompts are its own traffic.")
    stratum: Stratum = Field(description="Expected shift, fixed by design before anything is measured.")
    license: Text = Field(description="Licence of the training text (SPDX), or of a published adapter.")


class TrainedAdapter(_AdapterRow):
    """An adapter that the workflow trains with PEFT."""

    source: Literal["trained"] = Field(description="Trained by the workflow from this row.")
    rank: PositiveCount = Field(description="LoRA rank r.")
    alpha: Positive = Field(
        description="LoRA alpha; the update is scaled by alpha / r, or alpha / sqrt(r) with rsLoRA."
    )
    use_rslora: Flag = Field(description="Scale by alpha / sqrt(r).")
    target_modules: tuple[Name, ...] = Field(min_length=1, description="Module names that get an update.")
    learning_rate: NonNegative = Field(description="Constant learning rate of AdamW; 0 leaves the update exactly zero.")
    num_steps: Count = Field(description="Optimiser steps; 0 leaves the update exactly zero.")
    batch_size: PositiveCount = Field(description="Sequences per step.")
    seed: Seed = Field(description="Seed of initialisation and data order.")

    @model_validator(mode="after")
    def _only_a_control_stays_untrained(self) -> "TrainedAdapter":
        if self.stratum == "control" and self.num_steps != 0:
            raise ValueError(f"num_steps {self.num_steps} must be 0 for a control, whose update is exactly zero")
        if self.stratum != "control" and not (self.num_steps and self.learning_rate):
            raise ValueError("num_steps and learning_rate must be positive for an adapter that is trained")
        return self


class ShippedAdapter(TrainedAdapter):
    """An adapter that the repository ships, with the recipe that made it."""

    source: Literal["shipped"] = Field(description="Taken from the repository; the row says how it was made.")
    path: RelativePath = Field(description="PEFT folder of the adapter.")
    sha256: Sha256 | None = Field(default=None, description="SHA-256 of its safetensors file; null until shipped.")


class HubAdapter(_AdapterRow):
    """A published adapter at one immutable commit."""

    source: Literal["hub"] = Field(description="A repository on the model hub.")
    repo: RepoId = Field(description="Owner and name of the repository.")
    revision: Revision | None = Field(
        description="Commit of 40 hex digits; null is unpinned: it can be planned, but not run."
    )


Adapter = Annotated[TrainedAdapter | ShippedAdapter | HubAdapter, Field(discriminator="source")]


class AdapterPoolConfig(ConfigModel):
    """The whole of ``adapter_pool.yaml``."""

    adapters: tuple[Adapter, ...] = Field(min_length=1, description="The adapters of the tier, one row each.")

    @model_validator(mode="after")
    def _names_are_unique(self) -> "AdapterPoolConfig":
        names = [row.name for row in self.adapters]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"adapter names must be unique; {', '.join(twice)} stands more than once")
        return self

    @model_validator(mode="after")
    def _folders_are_unique(self) -> "AdapterPoolConfig":
        paths = [PurePosixPath(row.path) for row in self.adapters if isinstance(row, ShippedAdapter)]
        twice = sorted({str(path) for path in paths if paths.count(path) > 1})
        if twice:
            raise ValueError(f"each shipped adapter has a folder of its own; {', '.join(twice)} stands more than once")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the adapters' names in file order."""
        return tuple(row.name for row in self.adapters)

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the distinct domains in file order."""
        return tuple(dict.fromkeys(row.domain for row in self.adapters))

    def find(self, name: str) -> TrainedAdapter | ShippedAdapter | HubAdapter:
        """Return the row of one adapter; KeyError if there is none, since names come from :attr:`names`."""
        return {row.name: row for row in self.adapters}[name]
