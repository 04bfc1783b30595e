"""Draft steps of one adapter, counted as vLLM counts them; every rate is derived."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class DraftCounts:
    """Counters of one adapter; position k of ``num_drafts_per_pos`` counts the steps that drafted that far."""

    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_drafts_per_pos: list[int] = field(default_factory=list)
    num_accepted_tokens_per_pos: list[int] = field(default_factory=list)

    def add_steps(self, num_accepted: NDArray[np.int8], depth: int) -> None:
        """Count draft steps at one depth.

        Parameters
        ----------
        num_accepted
            Drafts that each step would accept if it drafted without end, shape ``(num_steps,)``.
        """
        reached = np.bincount(np.minimum(num_accepted, depth), minlength=depth + 1)[::-1].cumsum()[::-1][1:]
        self.add(len(num_accepted), depth, [int(count) for count in reached])

    def add(self, num_drafts: int, depth: int, accepted_per_pos: Sequence[int]) -> None:
        """Count ``num_drafts`` steps at one depth, of which so many accepted the first k drafts."""
        self.merge(
            DraftCounts(
                num_drafts, num_drafts * depth, sum(accepted_per_pos), [num_drafts] * depth, list(accepted_per_pos)
            )
        )

    def merge(self, other: "DraftCounts") -> None:
        """Count what another counter has counted."""
        self.num_drafts += other.num_drafts
        self.num_draft_tokens += other.num_draft_tokens
        self.num_accepted_tokens += other.num_accepted_tokens
        missing = len(other.num_drafts_per_pos) - len(self.num_drafts_per_pos)
        self.num_drafts_per_pos += [0] * missing
        self.num_accepted_tokens_per_pos += [0] * missing
        for position, drafts in enumerate(other.num_drafts_per_pos):
            self.num_drafts_per_pos[position] += drafts
            self.num_accepted_tokens_per_pos[position] += other.num_accepted_tokens_per_pos[position]

    @property
    def acceptance_rate(self) -> float | None:
        """Return accepted over drafted tokens; None where nothing was drafted."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else None

    @property
    def acceptance_rate_per_pos(self) -> tuple[float, ...]:
        """Return a_k over the steps that drafted to k."""
        pairs = zip(self.num_accepted_tokens_per_pos, self.num_drafts_per_pos, strict=True)
        return tuple(accepted / drafts for accepted, drafts in pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return the raw counts as plain data."""
        return {
            "num_drafts": self.num_drafts,
            "num_draft_tokens": self.num_draft_tokens,
            "num_accepted_tokens": self.num_accepted_tokens,
            "num_drafts_per_pos": list(self.num_drafts_per_pos),
            "num_accepted_tokens_per_pos": list(self.num_accepted_tokens_per_pos),
        }
