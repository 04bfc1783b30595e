"""Block ``cost_parts`` of ``phase1_measurement.yaml``: steps that tell a step's parts apart, others that test it."""

from itertools import product
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from lora_spec.config.fields import (
    BatchSize,
    BatchSizes,
    ConfigModel,
    Depth,
    NonNegative,
    NumTrials,
    PositiveCount,
    Seed,
)


def _are_distinct(values: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(values)) < len(values):
        raise ValueError("values must be distinct")
    return values


Depths = Annotated[tuple[Depth, ...], Field(min_length=1), AfterValidator(_are_distinct)]
TokenCounts = Annotated[tuple[PositiveCount, ...], Field(min_length=1), AfterValidator(_are_distinct)]
Cell = tuple[str, int, int, tuple[int, ...]]


class DecodeCells(ConfigModel):
    """Running batches of one context in which every request drafts alike."""

    num_context_tokens: PositiveCount = Field(description="Prompt tokens per request: attention grows with them.")
    batch_sizes: BatchSizes = Field(min_length=1, description="Requests per batch.")
    depths: Depths = Field(description="Depths K that each batch goes through; 0 is off in this engine.")

    def cells(self, kind: str) -> list[Cell]:
        """Return what is timed: kind, context, batch size, depth."""
        return [(kind, self.num_context_tokens, b, (k,)) for b, k in product(self.batch_sizes, self.depths)]


class MixedCells(ConfigModel):
    """Running batches in which requests draft to different depths, as a policy by adapter makes them."""

    num_context_tokens: PositiveCount = Field(description="Prompt tokens per request.")
    batch_sizes: BatchSizes = Field(min_length=1, description="Requests per batch.")
    mixes: tuple[Depths, ...] = Field(
        min_length=1,
        description="Depths dealt to the adapters in turn: the drafter runs as deep as the deepest, the target "
        "verifies each request's own.",
    )

    @model_validator(mode="after")
    def _is_mixed(self) -> "MixedCells":
        if any(len(mix) < 2 for mix in self.mixes):
            raise ValueError("a mix needs two depths or more; one depth for all belongs under decode")
        return self

    def cells(self) -> list[Cell]:
        """Return what is timed: kind, context, batch size, the mix."""
        return [("mixed", self.num_context_tokens, b, mix) for b, mix in product(self.batch_sizes, self.mixes)]


class PrefillCells(ConfigModel):
    """Prompts computed in one step: alone in every engine, and beside a batch that decodes."""

    num_prompt_tokens: TokenCounts = Field(description="Tokens of the prompt that is computed.")
    num_context_tokens: PositiveCount = Field(description="Prompt tokens of the requests that decode beside it.")
    batch_sizes: BatchSizes = Field(min_length=1, description="Requests that decode beside it.")
    depths: Depths = Field(description="Depths K at which they do.")

    def cells(self) -> list[Cell]:
        """Return what is timed: kind, prompt tokens, batch size (0: alone), depth."""
        beside = product(self.num_prompt_tokens, self.batch_sizes, self.depths)
        alone = [("prefill", p, 0, (0,)) for p in self.num_prompt_tokens]
        return [*alone, *(("prefill", p, b, (k,)) for p, b, k in beside)]


class CostCells(ConfigModel):
    """All cells of one use."""

    decode: tuple[DecodeCells, ...] = Field(min_length=1, description="LoRA on, with a drafter, one depth for all.")
    mixed: tuple[MixedCells, ...] = Field(min_length=1, description="LoRA on, depths that differ within the batch.")
    prefill: PrefillCells = Field(description="Steps that compute a prompt.")
    no_drafter: DecodeCells = Field(
        description="An engine started without a drafter, depth 0: what an engine pays for being able to speculate."
    )
    no_lora: DecodeCells = Field(description="An engine started without LoRA: what LoRA costs, and merged weights.")
    load_ranks: TokenCounts = Field(description="LoRA ranks whose load is timed, on copies of one served adapter.")

    @model_validator(mode="after")
    def _cannot_draft_without_drafter(self) -> "CostCells":
        if self.no_drafter.depths != (0,):
            raise ValueError("no_drafter.depths must be [0]: that engine cannot draft")
        return self

    def cells(self) -> list[Cell]:
        """Return every cell but the loads."""
        found = [cell for part in self.decode for cell in part.cells("decode")]
        found += [cell for part in self.mixed for cell in part.cells()]
        found += [*self.prefill.cells(), *self.no_drafter.cells("no_drafter"), *self.no_lora.cells("no_lora")]
        return found

    @property
    def max_depth(self) -> int:
        """Return the deepest K."""
        return max(depth for _, _, _, depths in self.cells() for depth in depths)

    @property
    def max_batch_size(self) -> int:
        """Return the largest batch, an arriving prompt included."""
        return max(size + (kind == "prefill") for kind, _, size, _ in self.cells())


class CostPartsConfig(ConfigModel):
    """The second timing campaign: small, interleaved, alone on the machine; LoRA rank and adapters as in step_time."""

    fit: CostCells = Field(description="Cells that the cost model of parts is fitted to.")
    validation: CostCells = Field(description="Cells that it must foretell: none of them is among those of fit.")
    num_trials: NumTrials = Field(description="Interleaved repetitions of all cells; they show the drift.")
    num_steps: PositiveCount = Field(description="Timed engine steps per cell and trial; a prompt is computed once.")
    num_warmup_steps: PositiveCount = Field(
        description="Untimed steps before them: the first still verifies drafts of the depth before."
    )
    max_other_cores: NonNegative = Field(
        description="Cores that other processes may use meanwhile; above it a batch is discarded and repeated."
    )
    max_wait_s: NonNegative = Field(description="Seconds to wait in all for a quiet machine before it is given up.")
    seed: Seed = Field(description="Seed of the order in which the cells of a trial run.")

    @model_validator(mode="after")
    def _nothing_is_used_twice(self) -> "CostPartsConfig":
        for name, use in (("fit", self.fit), ("validation", self.validation)):
            if len(set(use.cells())) < len(use.cells()):
                raise ValueError(f"{name} holds a cell twice; take it out of one of its grids")
        shared = sorted(set(self.fit.cells()) & set(self.validation.cells()))
        ranks = sorted(set(self.fit.load_ranks) & set(self.validation.load_ranks))
        if shared or ranks:
            what = f"cell {shared[0]}" if shared else f"load rank {ranks[0]}"
            raise ValueError(f"{what} stands in fit and in validation: a cell that was fitted tests nothing")
        return self

    @property
    def max_depth(self) -> int:
        """Return the deepest K."""
        return max(self.fit.max_depth, self.validation.max_depth)

    @property
    def max_batch_size(self) -> BatchSize:
        """Return the largest batch."""
        return max(self.fit.max_batch_size, self.validation.max_batch_size)

    @property
    def max_lora_rank(self) -> int:
        """Return the largest rank that is loaded."""
        return max(*self.fit.load_ranks, *self.validation.load_ranks)

    @property
    def num_tokens(self) -> int:
        """Return how long a timed request can get; every step may yield the deepest K + 1 tokens."""
        return max(map(self._longest, (self.fit, self.validation)))

    def _longest(self, use: CostCells) -> int:
        per_depth, step = self.num_warmup_steps + self.num_steps, self.max_depth + 1
        grids = (*use.decode, use.no_drafter, use.no_lora)
        runs = [(grid.num_context_tokens, len(grid.depths)) for grid in grids]
        runs += [(grid.num_context_tokens, len(grid.mixes)) for grid in use.mixed]
        decoding = max(context + step * (num * per_depth + 3) for context, num in runs)
        beside = use.prefill.num_context_tokens + step * (3 * len(use.prefill.num_prompt_tokens) + 6)
        return max(decoding, beside, *use.prefill.num_prompt_tokens) + 2 * self.max_depth
