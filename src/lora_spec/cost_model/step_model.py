"""The step-cost model: named parts with intervals, for any batch, mix of depths, prompt and context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.model import DEFAULT_TIME_LEVEL, MOST_MS
from lora_spec.cost_model.step_parts import STEP_PART_NAMES, step_parts
from lora_spec.errors import ConfigError, ResultError
from lora_spec.percentiles import percentile_interval
from lora_spec.records import Interval

Array = NDArray[np.float64]

SCHEMA_VERSION = "1"
LOAD_PART_NAMES = ("load_ms", "load_per_rank_ms", "place_ms", "place_per_rank_ms")


@dataclass(frozen=True, eq=False)
class StepCostModel:
    """Times of engine steps as sums of parts: a :class:`~lora_spec.cost_model.step_cost.StepCost`.

    As fitted it is the engine that is served: LoRA on, and a drafter that runs even at depth 0. :meth:`without_drafter`
    and :meth:`without_lora` are engines that were started so. The gate's table (:class:`CostModel`) was timed with the
    drafter left out at depth 0: its T_0 is ``without_drafter()``, its T_K at K > 0 is this model's.

    LoRA's parts hold for one ``max_lora_rank`` of the engine, to which vLLM pads every adapter, whatever its own rank;
    loading goes by the adapter's own.

    Parameters
    ----------
    parts_ms, part_draws_ms
        By :data:`STEP_PART_NAMES`: estimates, shape ``(14,)``, and bootstrap draws over trials, ``(num_draws, 14)``.
    loads_ms, load_draws_ms
        By :data:`LOAD_PART_NAMES`: an adapter's first use, and its placing from CPU memory into a slot; ms, and ms per
        rank. Files lie in the system's cache.
    context
        What the times hold for: served LoRA rank, ranges measured, trials, engine.
    """

    parts_ms: Array
    part_draws_ms: Array
    loads_ms: Array
    load_draws_ms: Array
    context: Mapping[str, Any]
    has_drafter: bool = True
    has_lora: bool = True

    def __post_init__(self) -> None:
        pairs = (
            ("parts", STEP_PART_NAMES, self.parts_ms, self.part_draws_ms),
            ("loads", LOAD_PART_NAMES, self.loads_ms, self.load_draws_ms),
        )
        for what, names, values, draws in pairs:
            if values.shape != (len(names),) or draws.shape[1:] != values.shape or not len(draws):
                raise ResultError(f"step costs: {what} of shape {values.shape} and {draws.shape}; fit them again")
            if not all(np.all((times >= 0) & (times < MOST_MS)) for times in (values, draws)):
                raise ResultError(f"step costs: {what} hold a time that is negative or endless; fit them again")

    def without_drafter(self) -> "StepCostModel":
        """Return the costs of an engine that was started without a drafter."""
        return replace(self, has_drafter=False)

    def without_lora(self) -> "StepCostModel":
        """Return the costs of an engine that was started without LoRA, as for merged weights."""
        return replace(self, has_lora=False)

    @cached_property
    def _parts(self) -> tuple[float, ...]:
        return tuple(self.parts_ms.tolist())

    def step_ms(self, depths: Sequence[int], *, num_prefill_tokens: int, num_context_tokens: int) -> float:
        """Return how long one step lasts, in ms; arguments as in :class:`~lora_spec.cost_model.step_cost.StepCost`.

        Raises
        ------
        ConfigError
            No such step: nothing in it, negative counts, or drafts without a drafter.
        """
        counts = self._counts(depths, num_prefill_tokens, num_context_tokens)
        return sum(map(mul, counts, self._parts))

    def step_interval(
        self,
        depths: Sequence[int],
        *,
        num_prefill_tokens: int,
        num_context_tokens: int,
        level: float = DEFAULT_TIME_LEVEL,
    ) -> Interval:
        """Return the same with its bootstrap interval."""
        counts = np.array(self._counts(depths, num_prefill_tokens, num_context_tokens), dtype=np.float64)
        return percentile_interval(float(counts @ self.parts_ms), self.part_draws_ms @ counts, level)

    def excess_over(
        self,
        other: "StepCostModel",
        depths: Sequence[int],
        *,
        num_context_tokens: int,
        level: float = DEFAULT_TIME_LEVEL,
    ) -> Interval:
        """Return by which share a decode step lasts longer than in another engine of the same fit, on the same draws.

        Raises
        ------
        ConfigError
            The other is of another fit, or one of the two knows no such step.
        ResultError
            That step takes no time.
        """
        if other.part_draws_ms is not self.part_draws_ms:
            raise ConfigError("engines of two fits share no draws; compare engines of one, as without_drafter() gives")
        here, there = (
            np.array(engine._counts(depths, 0, num_context_tokens), dtype=np.float64) for engine in (self, other)
        )
        others_ms = np.append(self.part_draws_ms @ there, there @ self.parts_ms)
        if not np.all(others_ms > 0):
            raise ResultError("step costs: a decode step takes no time at all; fit them again")
        shares = np.append(self.part_draws_ms @ here, here @ self.parts_ms) / others_ms - 1
        return percentile_interval(float(shares[-1]), shares[:-1], level)

    def _counts(self, depths: Sequence[int], num_prefill_tokens: int, num_context_tokens: int) -> tuple[float, ...]:
        is_possible = (depths or num_prefill_tokens) and min(num_prefill_tokens, num_context_tokens, *depths) >= 0
        if not is_possible or (not self.has_drafter and any(depths)):
            raise ConfigError(
                f"no step has depths {list(depths)}, {num_prefill_tokens} prefill and {num_context_tokens} context "
                f"tokens{'' if self.has_drafter else ' without a drafter'}; correct what is asked"
            )
        return step_parts(
            depths, num_prefill_tokens, num_context_tokens, has_drafter=self.has_drafter, has_lora=self.has_lora
        )

    def adapter_load_ms(self, lora_rank: int) -> float:
        """Return how long the first use of an adapter of this rank holds up the step, in ms."""
        return self._load(lora_rank, self.loads_ms[:2])

    def adapter_place_ms(self, lora_rank: int) -> float:
        """Return the same for an adapter that lies in CPU memory and has lost its slot."""
        return self._load(lora_rank, self.loads_ms[2:])

    @staticmethod
    def _load(lora_rank: int, line: Array) -> float:
        if lora_rank < 1:
            raise ConfigError(f"no adapter has rank {lora_rank}; give the rank of an adapter to load")
        return float(line[0] + line[1] * lora_rank)

    def part_intervals(self, *, level: float = DEFAULT_TIME_LEVEL) -> dict[str, Interval]:
        """Return every part with its interval, in ms."""
        named = zip(STEP_PART_NAMES, self.parts_ms, self.part_draws_ms.T, strict=True)
        loads = zip(LOAD_PART_NAMES, self.loads_ms, self.load_draws_ms.T, strict=True)
        return {name: percentile_interval(float(value), draws, level) for name, value, draws in (*named, *loads)}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "schema_version": SCHEMA_VERSION,
            "part_names": [*STEP_PART_NAMES, *LOAD_PART_NAMES],
            "parts_ms": self.parts_ms.tolist(),
            "part_draws_ms": self.part_draws_ms.tolist(),
            "loads_ms": self.loads_ms.tolist(),
            "load_draws_ms": self.load_draws_ms.tolist(),
            "context": dict(self.context),
            "has_drafter": self.has_drafter,
            "has_lora": self.has_lora,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "StepCostModel":
        """Rebuild from :meth:`to_dict` output read back from JSON.

        Raises
        ------
        ResultError
            It is no such model of this schema, or damaged.
        """
        if not isinstance(data, Mapping) or data.get("schema_version") != SCHEMA_VERSION:
            raise ResultError(f"no step costs of schema {SCHEMA_VERSION!r}; fit them again")
        if data.get("part_names") != [*STEP_PART_NAMES, *LOAD_PART_NAMES]:
            raise ResultError("step costs: other parts than this version knows; fit them again")
        try:
            return cls(
                *(np.array(data[key], dtype=np.float64) for key in _ARRAYS),
                context=dict(data["context"]),
                has_drafter=_flag(data["has_drafter"]),
                has_lora=_flag(data["has_lora"]),
            )
        except (ArithmeticError, LookupError, TypeError, ValueError) as err:
            raise ResultError(f"step costs: damaged ({type(err).__name__}: {err}); fit them again") from err


_ARRAYS = ("parts_ms", "part_draws_ms", "loads_ms", "load_draws_ms")


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value
