"""What timing the steps of an engine gives, cell by cell: raw times, from which costs are fitted."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from lora_spec.errors import MeasurementError

MIN_STEP_TIME_TRIALS = 3  # fewer say nothing of how times vary


@dataclass(frozen=True)
class StepTimeCell:
    """Wall times of single engine steps at one depth K and batch size, in one trial."""

    num_speculative_tokens: int
    batch_size: int
    trial: int
    lora_rank: int
    num_context_tokens: int
    step_ms: tuple[float, ...]
    load_before: float
    load_after: float

    def __post_init__(self) -> None:
        cell = f"K={self.num_speculative_tokens}, batch {self.batch_size}, trial {self.trial}"
        if self.num_speculative_tokens < 0 or self.batch_size < 1 or min(self.trial, self.lora_rank) < 0:
            raise MeasurementError(f"{cell}, rank {self.lora_rank}: no such cell can be timed; measure it again")
        if not self.step_ms or not all(0 < step < math.inf for step in self.step_ms):
            raise MeasurementError(f"{cell}: no steps, or a step of no duration; measure it again")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "StepTimeCell":
        """Rebuild from :meth:`to_dict` output read back from JSON."""
        return cls(**{**data, "step_ms": tuple(data["step_ms"])})
