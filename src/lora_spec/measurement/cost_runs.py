"""What the campaign on the parts of a step runs: one running batch, one series of prompts, or one adapter's loads."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lora_spec.cost_cells import AdapterLoadCell, CellUse, CostCell, EngineArm
from lora_spec.engines import AdapterRef, Engine, GenerationRequest
from lora_spec.errors import MeasurementError
from lora_spec.measurement.acceptance import Prompt

_LOAD_PROMPT_TOKENS = 16  # short, so that the load stands out


class PromptsOfLength(Protocol):
    """Gives so many prompts of so many tokens."""

    def __call__(self, num_prompts: int, num_tokens: int, /) -> Sequence[Prompt]: ...


@dataclass(frozen=True)
class Served:
    """What runs are served with: adapters dealt to the requests in turn, and copies to load, by rank."""

    prompts: PromptsOfLength
    adapters: Sequence[AdapterRef]
    load_copies: Mapping[int, AdapterRef]
    num_steps: int
    num_warmup_steps: int

    @property
    def lora_rank(self) -> int:
        """Return the served rank."""
        return max(adapter.lora_rank for adapter in self.adapters)

    def requests(self, batch_size: int, num_tokens: int, arm: EngineArm) -> list[GenerationRequest]:
        """Return a batch; without LoRA where the engine has none."""
        prompts = self.prompts(batch_size, num_tokens) if batch_size else []
        adapters = [None] if arm == "no_lora" else self.adapters
        return [
            GenerationRequest(str(i), prompt.token_ids, 1, adapters[i % len(adapters)])
            for i, prompt in enumerate(prompts)
        ]


class Run(Protocol):
    """A piece of the campaign that is timed, or discarded, as a whole."""

    arm: EngineArm

    def time(self, engine: Engine, served: Served, *, trial: int) -> list[CostCell] | list[AdapterLoadCell]:
        """Return what was timed."""
        ...


@dataclass(frozen=True)
class DecodeRun:
    """One running batch, taken through mixes of depths; a mix is dealt to the adapters in turn."""

    use: CellUse
    arm: EngineArm
    batch_size: int
    num_prompt_tokens: int
    mixes: tuple[tuple[int, ...], ...]

    def time(self, engine: Engine, served: Served, *, trial: int) -> list[CostCell]:
        """Return one cell per mix, in an order of the trial's own."""
        requests = served.requests(self.batch_size, self.num_prompt_tokens, self.arm)
        order = np.random.default_rng([trial, self.batch_size, self.num_prompt_tokens]).permutation(len(self.mixes))
        mixes = [self.mixes[index] for index in order]
        plans = [_depths_by_adapter(served.adapters, mix) if len(mix) > 1 else mix[0] for mix in mixes]
        load_before = os.getloadavg()[0]
        timings = engine.time_decode_steps(
            requests, depths=plans, num_steps=served.num_steps, num_warmup_steps=served.num_warmup_steps
        )
        return [
            CostCell(
                use=self.use,
                arm=self.arm,
                depths=_depths_of(requests, plan),
                num_prompt_tokens=self.num_prompt_tokens,
                num_prefill_tokens=0,
                num_context_tokens=timing.num_context_tokens * self.batch_size,
                lora_rank=0 if self.arm == "no_lora" else served.lora_rank,
                trial=trial,
                step_ms=timing.step_ms,
                load_before=load_before,
                load_after=os.getloadavg()[0],
            )
            for plan, timing in zip(plans, timings, strict=True)
        ]


@dataclass(frozen=True)
class PrefillRun:
    """Prompts of several lengths, each computed in one step beside a batch that decodes at one depth, or alone."""

    use: CellUse
    arm: EngineArm
    batch_size: int
    num_prompt_tokens: int
    depth: int
    prefill_tokens: tuple[int, ...]

    def time(self, engine: Engine, served: Served, *, trial: int) -> list[CostCell]:
        """Return one cell per length."""
        running = served.requests(self.batch_size, self.num_prompt_tokens, self.arm)
        # The first is not kept: in its step the adapter may have to come back to its slot.
        arrivals = [
            GenerationRequest(f"arrival-{place}", one.prompt_token_ids, 1, one.adapter)
            for place, num_tokens in enumerate((self.prefill_tokens[0], *self.prefill_tokens))
            for one in served.requests(1, num_tokens, self.arm)
        ]
        load_before = os.getloadavg()[0]
        _, *timings = engine.time_prefill_steps(running, arrivals, depth=self.depth)
        return [
            CostCell(
                use=self.use,
                arm=self.arm,
                depths=(self.depth,) * self.batch_size,
                num_prompt_tokens=self.num_prompt_tokens if self.batch_size else 0,
                num_prefill_tokens=timing.num_prefill_tokens,
                num_context_tokens=timing.num_context_tokens,
                lora_rank=0 if self.arm == "no_lora" else served.lora_rank,
                trial=trial,
                step_ms=(timing.step_ms,),
                load_before=load_before,
                load_after=os.getloadavg()[0],
            )
            for timing in timings
        ]


class LoadRun:
    """One short prompt with an adapter of one rank: new to the engine, then pushed out of its slot, then at hand.

    The files are in the system's cache: what is timed is the engine's own work, not the disk.
    """

    arm: EngineArm = "no_drafter"

    def __init__(self, use: CellUse, lora_rank: int) -> None:
        self.use: CellUse = use
        self.lora_rank = lora_rank
        self._num_uses = 0

    def time(self, engine: Engine, served: Served, *, trial: int) -> list[AdapterLoadCell]:
        """Return one cell."""
        self._num_uses += 1  # the engine knows an adapter by its name, so every use has a new one
        copy = served.load_copies[self.lora_rank]
        fresh = AdapterRef(f"{copy.name}-{self._num_uses}", copy.path, copy.lora_rank, copy.has_update)

        def step_ms(adapter: AdapterRef) -> float:
            prompt = served.prompts(1, _LOAD_PROMPT_TOKENS)[0]
            request = GenerationRequest("load", prompt.token_ids, 1, adapter)
            return engine.time_prefill_steps([], [request], depth=0)[0].step_ms

        first_use_ms = step_ms(fresh)
        for other in served.adapters:  # as many as there are slots
            step_ms(other)
        return [AdapterLoadCell(self.use, self.lora_rank, trial, first_use_ms, step_ms(fresh), step_ms(fresh))]


def plan_runs(settings: Mapping[str, Any]) -> list[Run]:
    """Return the runs of one trial, by the ``cost_parts`` block of ``phase1_measurement.yaml``."""
    return [run for use in ("fit", "validation") for run in _runs_of(use, settings[use])]


def _runs_of(use: CellUse, cells: Mapping[str, Any]) -> Iterator[Run]:
    grids = [("served", grid) for grid in cells["decode"]]
    grids += [("no_drafter", cells["no_drafter"]), ("no_lora", cells["no_lora"])]
    for arm, grid in grids:
        mixes = tuple((depth,) for depth in grid["depths"])
        for batch_size in grid["batch_sizes"]:
            yield DecodeRun(use, arm, batch_size, grid["num_context_tokens"], mixes)
    for grid in cells["mixed"]:
        for batch_size in grid["batch_sizes"]:
            yield DecodeRun(use, "served", batch_size, grid["num_context_tokens"], tuple(map(tuple, grid["mixes"])))
    prefill = cells["prefill"]
    lengths, context = tuple(prefill["num_prompt_tokens"]), prefill["num_context_tokens"]
    for arm in ("served", "no_drafter", "no_lora"):
        yield PrefillRun(use, arm, 0, context, 0, lengths)
    for batch_size in prefill["batch_sizes"]:
        for depth in prefill["depths"]:
            yield PrefillRun(use, "served", batch_size, context, depth, lengths)
    for rank in cells["load_ranks"]:
        yield LoadRun(use, rank)


def _depths_by_adapter(adapters: Sequence[AdapterRef], mix: Sequence[int]) -> dict[str, int]:
    if len(adapters) < len(mix):
        raise MeasurementError(
            f"mix of depths {list(mix)}: depth is set by adapter, and only {len(adapters)} are served; add adapters of "
            "the timed rank, or take the mix out of cost_parts"
        )
    return {adapter.name: mix[index % len(mix)] for index, adapter in enumerate(adapters)}


def _depths_of(requests: Sequence[GenerationRequest], plan: int | Mapping[str, int]) -> tuple[int, ...]:
    if isinstance(plan, int):
        return (plan,) * len(requests)
    return tuple(plan[request.adapter.name] if request.adapter else 0 for request in requests)
