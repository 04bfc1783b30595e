"""One request inside the engine: what of its prompt is left, and how its tokens come once it decodes."""

import numpy as np
from numpy.typing import NDArray

from lora_spec.stress.draft_counts import DraftCounts
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.simulator.luck import Path
from lora_spec.traffic.schedule import ScheduledRequest


class OpenRequest:
    """A request that has arrived and not ended.

    While it decodes at one depth its future is known from its path: ``end_step`` is the engine step after which it is
    done. Another depth begins another segment. Between the ends of a segment its tokens are taken to come evenly, which
    matters to the length of the context alone.
    """

    __slots__ = (
        "_accepted",
        "_cumulated",
        "_first_step",
        "_path",
        "_position",
        "_tokens_per_step",
        "depth",
        "end_step",
        "first_token_s",
        "is_admitted",
        "num_left_prompt",
        "num_tokens",
        "scheduled",
    )

    def __init__(self, scheduled: ScheduledRequest, path: Path) -> None:
        self.scheduled = scheduled
        self.num_left_prompt = scheduled.num_prompt_tokens
        self.num_tokens = 0  # up to the start of the segment
        self.depth = 0
        self.end_step = 0
        self.first_token_s: float | None = None
        self.is_admitted = False
        self._path = path
        self._accepted = path.tobytes()  # whole numbers one by one, which an array is slow to give
        self._position = 0
        self._first_step = 0
        self._tokens_per_step = 1.0
        self._cumulated: NDArray[np.int64] | None = None

    def begin_segment(self, depth: int, step: int) -> None:
        """Decode at this depth from the engine's step on."""
        left = self.scheduled.num_output_tokens - self.num_tokens
        self.depth, self._first_step = depth, step
        if depth == 0:
            self._cumulated, num_steps = None, left
        else:
            path = self._path[self._position : self._position + left]
            self._cumulated = (np.minimum(path, depth) + 1).cumsum()
            num_steps = int(self._cumulated.searchsorted(left)) + 1
        self.end_step = step + num_steps
        self._tokens_per_step = left / num_steps

    def end_segment(self, step: int, counts: DraftCounts | None) -> None:
        """Take in the steps before this one; the drafts of the last step count whole, as vLLM counts them."""
        num_steps = step - self._first_step
        if num_steps <= 0:
            return
        if self._cumulated is None:
            num_new = num_steps
        else:
            num_new = int(self._cumulated[num_steps - 1])
            if counts is not None:
                counts.add_steps(self._path[self._position : self._position + num_steps], self.depth)
        self.num_tokens = min(self.num_tokens + num_new, self.scheduled.num_output_tokens)
        self._position += num_steps

    def miss_step(self) -> None:
        """Stay as it is over a step in which it had no place."""
        self._first_step += 1
        self.end_step += 1

    def num_accepted(self, step: int) -> int:
        """Return the drafts accepted in one step of the segment."""
        return min(self._accepted[self._position + step - self._first_step], self.depth)

    def num_context(self, step: int) -> float:
        """Return prompt and output tokens before a step of the segment."""
        grown = self._tokens_per_step * (step - self._first_step)
        return self.scheduled.num_prompt_tokens + self.num_tokens + grown

    @property
    def tokens_per_step(self) -> float:
        """Return how fast its context grows."""
        return self._tokens_per_step

    def record(self, last_token_s: float | None, error: str | None = None) -> RequestRecord:
        """Return what came of it."""
        request = self.scheduled
        return RequestRecord(
            index=request.index,
            adapter=request.adapter,
            num_prompt_tokens=request.num_prompt_tokens,
            num_output_tokens=self.num_tokens,
            due_s=request.arrival_s,
            sent_s=request.arrival_s,
            first_token_s=self.first_token_s,
            last_token_s=last_token_s,
            error=error,
        )
