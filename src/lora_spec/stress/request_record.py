"""What is kept of one request of a stress run; everything else is derived."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class RequestRecord:
    """One request as its client saw it; times are seconds after the start of the run.

    Parameters
    ----------
    due_s, sent_s
        When the schedule wanted it sent, and when it was: an open loop that cannot keep up shows here.
    first_token_s, last_token_s
        When the first and the last chunk with text came; None where none came.
    num_output_tokens
        As the server counts them.
    error
        Why it failed, None where it did not.
    """

    index: int
    adapter: str | None
    num_prompt_tokens: int
    num_output_tokens: int
    due_s: float
    sent_s: float
    first_token_s: float | None
    last_token_s: float | None
    error: str | None

    @property
    def is_possible(self) -> bool:
        """Return whether its counts and times can be those of a request: finite, and in the order of things."""
        times = [self.sent_s, *(t for t in (self.first_token_s, self.last_token_s) if t is not None)]
        is_timed = all(map(math.isfinite, [self.due_s, *times])) and self.due_s >= 0 and times == sorted(times)
        return is_timed and self.num_prompt_tokens >= 1 and self.num_output_tokens >= 0

    @property
    def ttft_ms(self) -> float | None:
        """Return the time to the first token, from when the request was due: waiting in the client is waiting."""
        return None if self.first_token_s is None else 1e3 * (self.first_token_s - self.due_s)

    @property
    def e2el_ms(self) -> float | None:
        """Return the time to the last token, from when the request was due."""
        return None if self.last_token_s is None else 1e3 * (self.last_token_s - self.due_s)

    @property
    def tpot_ms(self) -> float | None:
        """Return the time per output token after the first; None below two tokens."""
        if self.first_token_s is None or self.last_token_s is None or self.num_output_tokens < 2:
            return None
        return 1e3 * (self.last_token_s - self.first_token_s) / (self.num_output_tokens - 1)

    def is_good(self, *, max_ttft_ms: float, max_tpot_ms: float) -> bool:
        """Return whether it ended, and met its service level."""
        if self.error is not None or self.ttft_ms is None:
            return False
        return self.ttft_ms <= max_ttft_ms and (self.tpot_ms is None or self.tpot_ms <= max_tpot_ms)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RequestRecord":
        """Return the record in plain data."""
        return cls(**data)


def counted(records: Sequence[RequestRecord], *, warmup_s: float) -> list[RequestRecord]:
    """Return the requests that were due after the warm-up."""
    return [record for record in records if record.due_s >= warmup_s]
