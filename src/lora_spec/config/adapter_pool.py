"""``adapter_pool.yaml``: one row per adapter, with the recipe that makes it or the place it is taken from."""

import json
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from lora_spec.config.fields import (
    AtLeastOne,
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
    stands_once,
)

Stratum = Literal["benign", "moderate", "aggressive", "control"]


class _AdapterRow(ConfigModel):
    name: Name = Field(description="Unique name, used in paths and as the served name.")
    domain: Name = Field(description="Task whose text it is trained on and whose prompts are its own traffic.")
    stratum: Stratum = Field(description="Expected shift, fixed by design before anything is measured.")
    license: Text = Field(description="Licence of the training text (SPDX), or of a published adapter.")

    @property
    def recipe(self) -> str:
        """Return all that makes the adapter but its seed: neither the name nor where the file lies, nor the order in
        which its modules are listed.
        """
        kept = self.model_dump(mode="json", exclude={"name", "seed", "source", "path", "sha256"})
        return json.dumps({key: sorted(value) if isinstance(value, list) else value for key, value in kept.items()})


class TrainedAdapter(_AdapterRow):
    """An adapter that the workflow trains with PEFT."""

    source: Literal["trained"] = Field(description="Trained by the workflow from this row.")
    rank: PositiveCount = Field(description="LoRA rank r.")
    alpha: Positive = Field(
        description="LoRA alpha; the update is scaled by alpha / r, or alpha / sqrt(r) with rsLoRA."
    )
    use_rslora: Flag = Field(description="Scale by alpha / sqrt(r).")
    target_modules: Annotated[tuple[Name, ...], AfterValidator(stands_once)] = Field(
        min_length=1, description="Module names that get an update, in any order."
    )
    learning_rate: NonNegative = Field(
        description="Peak learning rate of AdamW, reached linearly in the first 5 % of the steps and then falling "
        "linearly to zero; 0 leaves the update exactly zero."
    )
    lora_plus_ratio: AtLeastOne = Field(
        default=1.0,
        description="LoRA+: learning rate of B over that of A, which is learning_rate; 1 is plain LoRA.",
    )
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

    def made_again(self) -> "TrainedAdapter":
        """Return the row by which another target's counterpart is trained: the recipe, no folder, no hash."""
        recipe = {key: getattr(self, key) for key in TrainedAdapter.model_fields}
        return TrainedAdapter(**{**recipe, "source": "trained"})


class ShippedAdapter(TrainedAdapter):
    """An adapter that the repository ships, with the recipe that made it."""

    source: Literal["shipped"] = Field(description="Taken from the repository; the row says how it was made.")
    path: RelativePath = Field(description="PEFT folder of the adapter.")
    sha256: Sha256 | None = Field(default=None, description="SHA-256 of its safetensors file; null until shipped.")


class _DerivedAdapter(_AdapterRow):
    """An adapter computed from another one: its rank, modules and alpha are its parent's."""

    stratum: Literal["control"] = Field(description="Derived adapters are controls.")
    parent: Name = Field(description="Name of the trained or shipped adapter of the same domain that it comes from.")


class ScaledAdapter(_DerivedAdapter):
    """A copy whose update is a multiple of its parent's: the same directions, another size."""

    source: Literal["scaled"] = Field(description="Its parent's update, multiplied.")
    scale: Positive = Field(description="Factor on the parent's update; powers of two are exact in bfloat16.")


class RandomAdapter(_DerivedAdapter):
    """A random update as large as its parent's, module by module: the same size, other directions."""

    source: Literal["random"] = Field(description="A random update of its parent's norms.")
    seed: Seed = Field(description="Seed of the random factors.")


class HubAdapter(_AdapterRow):
    """A published adapter at one immutable commit."""

    source: Literal["hub"] = Field(description="A repository on the model hub.")
    repo: RepoId = Field(description="Owner and name of the repository.")
    revision: Revision | None = Field(
        description="Commit of 40 hex digits; null is unpinned: it can be planned, but not run."
    )


Adapter = TrainedAdapter | ShippedAdapter | HubAdapter | ScaledAdapter | RandomAdapter


class ConfirmPoolConfig(ConfigModel):
    """How many adapters are made again, by their rows, on the pair ``confirm`` of ``models.yaml``, and which."""

    num_worst: PositiveCount = Field(description="Adapters of least predicted acceptance length.")
    num_best: PositiveCount = Field(description="Adapters of most predicted acceptance length.")
    num_random: Count = Field(description="Adapters drawn from all others: extremes alone would flatter a correlation.")
    seed: Seed = Field(description="Seed of that draw.")

    @property
    def num_adapters(self) -> int:
        """Return how many are confirmed."""
        return self.num_worst + self.num_best + self.num_random


def _made_of(row: Adapter) -> list[tuple[object, ...]]:
    """Return what each decides a row's weights alone: two rows that share one of them are one adapter."""
    if isinstance(row, ScaledAdapter) and row.scale == 1:
        return [("adapter", row.parent)]
    if isinstance(row, HubAdapter):
        return [("adapter", row.name), ("hub", row.repo, row.revision)]
    told: list[tuple[object, ...]] = [("adapter", row.name), ("recipe", row.recipe, getattr(row, "seed", None))]
    sha256 = getattr(row, "sha256", None)
    return told if sha256 is None else [*told, ("sha256", sha256)]


class AdapterPoolConfig(ConfigModel):
    """The whole of ``adapter_pool.yaml``."""

    adapters: tuple[Annotated[Adapter, Field(discriminator="source")], ...] = Field(
        min_length=1, description="The adapters of the tier, one row each."
    )
    pilot: tuple[str, ...] = Field(
        default=(), description="Adapters that are measured first, to see whether there is an effect at all; names."
    )
    confirm_pool: ConfirmPoolConfig | None = Field(
        default=None, description="Which adapters are confirmed on a second pair; null if none."
    )

    @model_validator(mode="after")
    def _names_are_unique(self) -> "AdapterPoolConfig":
        names = [row.name for row in self.adapters]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"adapter names must be unique; {', '.join(twice)} stands more than once")
        return self

    @model_validator(mode="after")
    def _parents_fit(self) -> "AdapterPoolConfig":
        # A split that leaves a domain out must leave out the copies of its adapters with it.
        with_recipe = {row.name: row for row in self.adapters if isinstance(row, TrainedAdapter)}
        for row in self.adapters:
            if not isinstance(row, _DerivedAdapter):
                continue
            if row.parent not in with_recipe:
                raise ValueError(f"{row.name}: parent {row.parent!r} is not a trained or shipped adapter of this pool")
            if with_recipe[row.parent].stratum == "control":
                raise ValueError(f"{row.name}: parent {row.parent!r} is a control, whose update is zero at any size")
            for key in ("domain", "license"):
                own, parents = getattr(row, key), getattr(with_recipe[row.parent], key)
                if own != parents:
                    raise ValueError(f"{row.name}: {key} {own!r} is not that of its parent {row.parent}, {parents!r}")
        return self

    @model_validator(mode="after")
    def _weights_are_distinct(self) -> "AdapterPoolConfig":
        # A fit refuses the same weights twice, but only once both were trained and measured.
        first: dict[tuple[object, ...], str] = {}
        for row in self.adapters:
            for made_of in _made_of(row):
                other = first.setdefault(made_of, row.name)
                if other != row.name:
                    raise ValueError(f"{row.name}: would have the same weights as {other}; change one or remove it")
        return self

    @model_validator(mode="after")
    def _folders_are_unique(self) -> "AdapterPoolConfig":
        paths = [PurePosixPath(row.path) for row in self.adapters if isinstance(row, ShippedAdapter)]
        twice = sorted({str(path) for path in paths if paths.count(path) > 1})
        if twice:
            raise ValueError(f"each shipped adapter has a folder of its own; {', '.join(twice)} stands more than once")
        return self

    @model_validator(mode="after")
    def _enough_can_be_confirmed(self) -> "AdapterPoolConfig":
        if self.confirm_pool is not None and self.confirm_pool.num_adapters > len(self.remade):
            raise ValueError(
                f"confirm_pool asks for {self.confirm_pool.num_adapters} adapters, and {len(self.remade)} of this pool "
                "have a recipe and are no control; ask for fewer"
            )
        return self

    @model_validator(mode="after")
    def _pilot_is_of_the_pool(self) -> "AdapterPoolConfig":
        strangers = [name for name in self.pilot if name not in self.names]
        if strangers:
            raise ValueError(f"pilot: {strangers[0]!r} is no adapter of this pool")
        if len(set(self.pilot)) < len(self.pilot):
            raise ValueError("pilot: a name stands twice")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the adapters' names in file order."""
        return tuple(row.name for row in self.adapters)

    @property
    def remade(self) -> tuple[str, ...]:
        """Return the adapters that can be made again for another target: those of a recipe that are no control."""
        rows = (row for row in self.adapters if isinstance(row, TrainedAdapter))
        return tuple(row.name for row in rows if row.stratum != "control")

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the distinct domains in file order."""
        return tuple(dict.fromkeys(row.domain for row in self.adapters))

    @property
    def separate(self) -> tuple[str, ...]:
        """Return the adapters that count as one observation each, in file order.

        Not among them are controls, which are copies or no update at all, and repeats: a row that differs from an
        earlier one in nothing but its seed (and name, and where its file lies) tells of noise, not of another adapter.
        """
        found: dict[str, str] = {}
        for row in self.adapters:
            if row.stratum != "control":
                found.setdefault(row.recipe, row.name)
        return tuple(found.values())

    def find(self, name: str) -> Adapter:
        """Return the row of one adapter; KeyError if there is none, since names come from :attr:`names`."""
        return {row.name: row for row in self.adapters}[name]

    def find_origin(self, name: str) -> TrainedAdapter | ShippedAdapter | HubAdapter:
        """Return the row that decides an adapter's rank and modules: its own, or its parent's if it is derived."""
        row = self.find(name)
        return self.find(row.parent) if isinstance(row, _DerivedAdapter) else row
