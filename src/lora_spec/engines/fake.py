"""An engine with known acceptance and a known clock, able to fail in the ways real ones do (for tests and smoke runs).

Whatever it gives is synthetic: results made with it are ``synthetic-smoke``, never evidence.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from lora_spec.engines.base import (
    AdapterRef,
    Completion,
    CounterReading,
    DecodeTiming,
    Depths,
    Engine,
    GenerationRequest,
    MatchReplayer,
    PrefillTiming,
    Trajectory,
)
from lora_spec.engines.verify_steps import accepted_per_step
from lora_spec.errors import EngineError

Fault = Literal[
    "lost_counters", "reset_counters", "late_counters", "adapter_ignored", "truncated_prompts", "failed_requests"
]
_NUM_TOKENS = 5000
_EOS = 2


def _random(*parts: object) -> np.random.Generator:
    """Return a generator that depends on the parts alone, whatever the process."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def _matches(prompt: tuple[int, ...], adapter: AdapterRef | None, alpha: float, num_tokens: int) -> np.ndarray:
    """Return where the imagined drafter is right: independent draws with probability alpha."""
    return _random("matches", prompt, _effective_name(adapter)).random(num_tokens) < alpha


def _effective_name(adapter: AdapterRef | None) -> str | None:
    """Return what the output depends on: an adapter without an update is the base."""
    return adapter.name if adapter and adapter.has_update else None


class _KnownAcceptance:
    """Acceptance probability of each drafted token, by adapter name (None is the base)."""

    def __init__(self, acceptance: Mapping[str | None, float]) -> None:
        self._acceptance = dict(acceptance)

    def _alpha(self, adapter: AdapterRef | None) -> float:
        name = _effective_name(adapter)
        if name not in self._acceptance:
            raise EngineError(f"the fake engine knows no adapter {name!r}; give its acceptance probability")
        return self._acceptance[name]


class FakeReplayer(_KnownAcceptance, MatchReplayer):
    """The replay that belongs to :class:`FakeEngine`: the same draws, so live and replayed counts are equal."""

    def first_choices(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """Return the text where the engine's draws for these prompts agree, and -1, which no text holds, elsewhere."""
        found = []
        for t in trajectories:
            text = np.array(t.output_token_ids + t.overrun_token_ids)
            agrees = _matches(t.prompt_token_ids, t.adapter, self._alpha(t.adapter), len(text))
            found.append(np.where(agrees, text, -1))
        return found


class FakeEngine(_KnownAcceptance, Engine):
    """An engine without a model.

    Parameters
    ----------
    acceptance
        Probability that a drafted token is accepted, given that all before it were, by adapter name; None is the base.
    num_speculative_tokens
        Largest depth.
    end_probability
        Chance of each token to be the end token.
    step_ms
        Clock: ``(fixed, per_drafted_token, per_sequence)`` in ms; a step of B sequences at depth K lasts
        fixed + per_drafted_token * K + per_sequence * B * (K + 1).
    prefill_token_ms
        What a prompt token adds to its step.
    load_ms_per_rank, max_loras
        ``(from disk, from memory)``: what an adapter adds per rank to the step that first needs it, or needs it again
        after so many others.
    fault
        The fault to commit, or None.
    """

    def __init__(
        self,
        acceptance: Mapping[str | None, float],
        *,
        num_speculative_tokens: int = 4,
        end_probability: float = 0.01,
        step_ms: tuple[float, float, float] = (5.0, 1.0, 0.5),
        prefill_token_ms: float = 0.25,
        load_ms_per_rank: tuple[float, float] = (0.0, 0.0),
        max_loras: int = 8,
        fault: Fault | None = None,
    ) -> None:
        super().__init__(acceptance)
        if fault is not None and fault not in get_args(Fault):
            raise EngineError(f"the fake engine knows no fault {fault!r}; choose one of {', '.join(get_args(Fault))}")
        self._max_depth = num_speculative_tokens
        self._depth = num_speculative_tokens
        self._depth_by_adapter: dict[str, int] = {}
        self._end_probability = end_probability
        self._step_ms = step_ms
        self._prefill_token_ms = prefill_token_ms
        self._load_ms_per_rank, self._max_loras = load_ms_per_rank, max_loras
        self._known: set[AdapterRef] = set()
        self._in_slots: list[AdapterRef] = []
        self._fault = fault
        self._total = np.zeros(3 + num_speculative_tokens, dtype=int)
        self._unpublished = np.zeros_like(self._total)
        self._num_calls = 0
        self._merged: AdapterRef | None = None

    @property
    def max_depth(self) -> int:
        """Return the largest depth."""
        return self._max_depth

    def describe(self) -> dict[str, Any]:
        """Return its known truth."""
        return {"engine": "fake", "num_speculative_tokens": self._max_depth, "fault": self._fault}

    def encode_chat(self, messages: Sequence[str]) -> list[tuple[int, ...]]:
        """Return one made-up token per word."""
        return [tuple(int(_random(word).integers(3, _NUM_TOKENS)) for word in text.split()) for text in messages]

    def set_depth(self, default_depth: int | None, *, depth_by_adapter: Mapping[str, int] | None = None) -> None:
        """Set the depth, within the maximum."""
        exceptions = dict(depth_by_adapter or {})
        for depth in (default_depth or 0, *exceptions.values()):
            if not 0 <= depth <= self._max_depth:
                raise EngineError(f"speculation depth {depth} is outside 0..{self._max_depth}")
        self._depth = self._max_depth if default_depth is None else default_depth
        self._depth_by_adapter = exceptions

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Draw tokens and acceptance for every request."""
        completions = [self._complete(request) for request in requests]
        counts = sum((self._count(completion) for completion in completions), np.zeros_like(self._total))
        self._num_calls += 1
        if self._fault == "reset_counters" and self._num_calls % 2 == 0:
            self._total[:] = 0
        elif self._fault == "late_counters":
            # The former call's counts appear only now: a warm-up leaks into the window after it.
            self._total += self._unpublished
            self._unpublished = counts
        elif self._fault != "lost_counters":
            self._total += counts
        return completions

    def _complete(self, request: GenerationRequest) -> Completion:
        prompt = request.prompt_token_ids
        adapter = None if self._fault == "adapter_ignored" else request.adapter or self._merged
        depth = self._depth_by_adapter.get(request.adapter.name, self._depth) if request.adapter else self._depth
        tokens = self._tokens(request, adapter)
        matches = _matches(prompt, adapter, self._alpha(adapter), len(tokens) + self._max_depth)
        accepted = accepted_per_step(matches, len(tokens), depth) if depth else ()
        has_ended = tokens[-1] == _EOS and not request.ignore_eos
        completion = Completion(
            request_id=request.request_id,
            num_prompt_tokens=len(prompt) // 2 if self._fault == "truncated_prompts" else len(prompt),
            output_token_ids=tokens,
            finish_reason="stop" if has_ended else "length",
            accepted_per_step=accepted,
            drafted_per_step=(depth,) * len(accepted),
        )
        return replace(completion, finish_reason="error") if self._fault == "failed_requests" else completion

    def _tokens(self, request: GenerationRequest, adapter: AdapterRef | None) -> tuple[int, ...]:
        draws = _random("tokens", request.prompt_token_ids, _effective_name(adapter)).random((request.max_tokens, 2))
        tokens = 3 + (draws[:, 0] * (_NUM_TOKENS - 3)).astype(int)
        tokens[draws[:, 1] < self._end_probability] = _EOS
        ends = np.flatnonzero(tokens == _EOS)
        if len(ends) and not request.ignore_eos:
            tokens = tokens[: ends[0] + 1]
        return tuple(int(token) for token in tokens)

    def _count(self, completion: Completion) -> np.ndarray:
        counts = completion.counts(self._max_depth)
        return np.array(
            [
                counts.num_drafts,
                counts.num_draft_tokens,
                counts.num_accepted_tokens,
                *counts.num_accepted_tokens_per_pos,
            ]
        )

    def reload_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Take the name of the adapter that is merged, None for the base, from the only entry of ``weights``."""
        ((_, self._merged),) = weights

    def read_counters(self) -> CounterReading:
        """Return the counters, true or faulty."""
        drafts, drafted, accepted, *per_pos = (int(value) for value in self._total)
        return CounterReading(drafts, drafted, accepted, tuple(per_pos))

    def time_decode_steps(
        self, requests: Sequence[GenerationRequest], *, depths: Sequence[Depths], num_steps: int, num_warmup_steps: int
    ) -> list[DecodeTiming]:
        """Return the known clock's time for every step."""
        context = sum(len(request.prompt_token_ids) for request in requests) / len(requests) + num_warmup_steps + 1
        timings = []
        for depth in depths:
            self.set_depths(depth)
            timings.append(DecodeTiming((self._clock(requests),) * num_steps, round(context)))
        return timings

    def _clock(self, requests: Sequence[GenerationRequest]) -> float:
        """Return the time of a step in which these decode, each at its depth."""
        fixed, per_drafted_token, per_sequence = self._step_ms
        depths = [
            self._depth_by_adapter.get(r.adapter.name, self._depth) if r.adapter else self._depth for r in requests
        ]
        return fixed + per_drafted_token * max(depths, default=0) + per_sequence * sum(depth + 1 for depth in depths)

    def time_prefill_steps(
        self, running: Sequence[GenerationRequest], arrivals: Sequence[GenerationRequest], *, depth: int
    ) -> list[PrefillTiming]:
        """Return the known clock's time for every step."""
        self.set_depth(depth)
        context = sum(len(request.prompt_token_ids) + 1 for request in running)
        timings = []
        for request in arrivals:
            num_tokens = len(request.prompt_token_ids)
            step = self._clock(running) + self._prefill_token_ms * num_tokens + self._load(request.adapter)
            timings.append(PrefillTiming(step, num_tokens, context))
        return timings

    def _load(self, adapter: AdapterRef | None) -> float:
        """Return what it takes to have this adapter in a slot, and put it there, last used last."""
        if adapter is None:
            return 0.0
        disk, memory = (per_rank * adapter.lora_rank for per_rank in self._load_ms_per_rank)
        cost = disk if adapter not in self._known else 0.0 if adapter in self._in_slots else memory
        self._known.add(adapter)
        self._in_slots = [*(other for other in self._in_slots if other != adapter), adapter][-self._max_loras :]
        return cost
