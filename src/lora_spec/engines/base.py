"""What every engine offers and what passes through it. Knows no engine by name."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np

from lora_spec.engines.verify_steps import accepted_per_step
from lora_spec.errors import EngineError
from lora_spec.records import AcceptanceCounts


@dataclass(frozen=True)
class AdapterRef:
    """A LoRA adapter as an engine needs it; ``has_update`` is False only for an exactly zero update."""

    name: str
    path: str
    lora_rank: int
    has_update: bool = True


@dataclass(frozen=True)
class GenerationRequest:
    """One prompt to be continued; ``request_id`` is unique within one call."""

    request_id: str
    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    adapter: AdapterRef | None = None
    temperature: float = 0.0
    ignore_eos: bool = False


@dataclass(frozen=True)
class Completion:
    """What one request gave.

    ``accepted_per_step[i]`` of ``drafted_per_step[i]`` drafted tokens were accepted in verify step i. The engine counts
    before it cuts the output at the end token or the cap, so the last step may count accepted tokens never delivered.
    ``e2el_ms`` is the time from arrival to the last token, None where the engine keeps no clock.
    """

    request_id: str
    num_prompt_tokens: int
    output_token_ids: tuple[int, ...]
    finish_reason: str
    accepted_per_step: tuple[int, ...]
    drafted_per_step: tuple[int, ...]
    e2el_ms: float | None = None

    def counts(self, num_speculative_tokens: int) -> AcceptanceCounts:
        """Return this request's share of the engine's counters at depth K."""
        if max(self.drafted_per_step, default=0) > num_speculative_tokens:
            raise EngineError(
                f"request {self.request_id} drafted {max(self.drafted_per_step)} tokens in one step at depth "
                f"{num_speculative_tokens}: set the engine's depth before the requests are sent"
            )
        per_pos = tuple(sum(n > k for n in self.accepted_per_step) for k in range(num_speculative_tokens))
        return AcceptanceCounts(len(self.drafted_per_step), sum(self.drafted_per_step), sum(per_pos), per_pos)


@dataclass(frozen=True)
class DecodeTiming:
    """Wall times of single decode steps in a full batch, and the mean context length while they ran."""

    step_ms: tuple[float, ...]
    num_context_tokens: int


@dataclass(frozen=True)
class PrefillTiming:
    """Wall time of one step that computed a whole prompt, and the context of the requests that decoded in it."""

    step_ms: float
    num_prefill_tokens: int
    num_context_tokens: int


Depths = int | Mapping[str, int]
"""One depth for all requests of a batch, or one by adapter name, where requests without an entry draft nothing."""


@dataclass(frozen=True)
class Trajectory:
    """A greedy continuation as recorded, with the target's own tokens past its end.

    ``overrun_token_ids`` continue ``output_token_ids`` as if neither the end token nor the cap had stopped them: the
    last verify step of a speculating engine judges drafted tokens up to K - 1 positions past the end, and counts them.
    """

    prompt_id: str
    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    overrun_token_ids: tuple[int, ...]
    finish_reason: str
    adapter: AdapterRef | None = None


class CounterWindow:
    """The engine's counters between entering and leaving a ``with`` block, as a delta.

    ``delta`` is set on leaving; a counter that went backwards raises MeasurementError there.
    """

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.delta: AcceptanceCounts | None = None

    def __enter__(self) -> Self:
        self._before = self._engine.read_counters()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.delta = subtract_counters(self._engine.read_counters(), self._before)


@dataclass(frozen=True)
class CounterReading:
    """Counters since the engine's start, as read: not yet a window, so nothing is checked."""

    num_drafts: int
    num_draft_tokens: int
    num_accepted_tokens: int
    num_accepted_tokens_per_pos: tuple[int, ...]


def subtract_counters(after: CounterReading, before: CounterReading) -> AcceptanceCounts:
    """Return the counts of the window between two readings.

    Raises
    ------
    MeasurementError
        A counter fell, so the engine or its counters were reset inside the window.
    """
    pairs = zip(after.num_accepted_tokens_per_pos, before.num_accepted_tokens_per_pos, strict=True)
    return AcceptanceCounts(
        after.num_drafts - before.num_drafts,
        after.num_draft_tokens - before.num_draft_tokens,
        after.num_accepted_tokens - before.num_accepted_tokens,
        tuple(late - early for late, early in pairs),
    )


class Engine(ABC):
    """A target model with a drafter: greedy or sampled continuation, counters, step times.

    Closing is the caller's duty (``with open_engine(...) as engine``). Calls are not thread-safe.
    """

    @property
    @abstractmethod
    def max_depth(self) -> int:
        """Return the largest number of tokens drafted per step; 0 without a drafter."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the circumstances that give its numbers meaning, as plain JSON data."""

    @abstractmethod
    def encode_chat(self, messages: Sequence[str]) -> list[tuple[int, ...]]:
        """Return each user message as prompt tokens under the model's chat template."""

    def set_depths(self, depths: Depths) -> None:
        """Set one depth for all, or one by adapter name, where requests without an entry draft nothing."""
        if isinstance(depths, Mapping):
            self.set_depth(0, depth_by_adapter=depths)
        else:
            self.set_depth(depths)

    @abstractmethod
    def set_depth(self, default_depth: int | None, *, depth_by_adapter: Mapping[str, int] | None = None) -> None:
        """Set the drafted tokens per step for requests sent from now on; None restores the maximum."""

    @abstractmethod
    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion per request, in the order of the requests."""

    @abstractmethod
    def read_counters(self) -> CounterReading:
        """Return the counters since the engine's start; the vector has ``max_depth`` entries."""

    @abstractmethod
    def time_decode_steps(
        self, requests: Sequence[GenerationRequest], *, depths: Sequence[Depths], num_steps: int, num_warmup_steps: int
    ) -> list[DecodeTiming]:
        """Time engine steps with all requests decoding, at one depth after the other in one running batch.

        A depth may be one number for all, or one by adapter name.

        At each depth ``num_warmup_steps`` go untimed, at least one, since the first step after a change still judges
        drafts of the depth before; then ``num_steps`` are timed. ``max_tokens`` of the requests is ignored: they run
        until all is timed, then they are aborted. The engine is left at the last depth. Drafts that follow depth 0 are
        worse than they would be (the drafter has not seen those tokens): times hold, acceptance does not.
        """

    def time_prefill_steps(
        self, running: Sequence[GenerationRequest], arrivals: Sequence[GenerationRequest], *, depth: int
    ) -> list[PrefillTiming]:
        """Time one step per arriving prompt: it is computed whole while all running requests decode at one depth.

        ``max_tokens`` is ignored: arrivals end with their first token, running requests when all is timed. The engine
        is left at the depth.

        Raises
        ------
        EngineError
            This engine cannot, or a prompt did not fit into one step.
        """
        raise EngineError(f"{type(self).__name__} cannot time prompts; use another engine")

    def reload_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Serve other weights of the same shapes from now on: (name, tensor), as in the target's checkpoint.

        Raises
        ------
        EngineError
            This engine cannot, or some requests still run.
        """
        raise EngineError(f"{type(self).__name__} cannot change its weights; start another engine")

    def close(self) -> None:  # noqa: B027 - an engine without resources has nothing to release
        """Release memory, processes and files. Closing twice is harmless."""

    def counters(self) -> CounterWindow:
        """Return a window over the counters, for use in a ``with`` statement."""
        return CounterWindow(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class ReplayedSteps:
    """The verify steps of one trajectory at one depth: drafted and accepted tokens of each."""

    num_speculative_tokens: int
    drafted_per_step: tuple[int, ...]
    accepted_per_step: tuple[int, ...]

    def counts(self) -> AcceptanceCounts:
        """Return what an engine's counters would say: steps that drafted nothing are not drafts."""
        per_pos = tuple(sum(n > k for n in self.accepted_per_step) for k in range(self.num_speculative_tokens))
        num_drafts = sum(n > 0 for n in self.drafted_per_step)
        return AcceptanceCounts(num_drafts, sum(self.drafted_per_step), sum(per_pos), per_pos)


class Replayer(ABC):
    """A drafting method that says, for recorded trajectories, what every verify step would have accepted."""

    @abstractmethod
    def replay(self, trajectories: Sequence[Trajectory], depths: Sequence[int]) -> list[list[ReplayedSteps]]:
        """Return the steps of every trajectory at every depth, depths innermost."""


class MatchReplayer(Replayer):
    """A drafter whose drafts follow from its first choice after every token, as those of a draft model do."""

    @abstractmethod
    def first_choices(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """Return, per trajectory, the token that the drafter ranks first at every output and overrun position."""

    def match_drafts(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """Return, per trajectory, a bool vector over output and overrun tokens.

        Entry i says whether the drafter, given everything before output token i, ranks that token first.
        """
        return [
            choices == np.array(trajectory.output_token_ids + trajectory.overrun_token_ids)
            for trajectory, choices in zip(trajectories, self.first_choices(trajectories), strict=True)
        ]

    def replay(self, trajectories: Sequence[Trajectory], depths: Sequence[int]) -> list[list[ReplayedSteps]]:
        """Return the steps at every depth from one vector of matches per trajectory."""
        matches = self.match_drafts(trajectories)
        return [
            [steps_of_matches(vector, len(trajectory.output_token_ids), depth) for depth in depths]
            for trajectory, vector in zip(trajectories, matches, strict=True)
        ]


def steps_of_matches(matches: np.ndarray, num_output_tokens: int, num_speculative_tokens: int) -> ReplayedSteps:
    """Return the steps at one depth along a trajectory with known matches (see ``verify_steps``)."""
    accepted = accepted_per_step(matches, num_output_tokens, num_speculative_tokens)
    return ReplayedSteps(num_speculative_tokens, (num_speculative_tokens,) * len(accepted), accepted)
