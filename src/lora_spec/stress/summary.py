"""What a run came to, from its records: one summary for live and simulated runs. Counts are kept, rates derived."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lora_spec.errors import MeasurementError
from lora_spec.stress.draft_counts import DraftCounts
from lora_spec.stress.request_record import RequestRecord, counted

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
TIMES = ("ttft_ms", "tpot_ms", "e2el_ms")


@dataclass(frozen=True)
class ServiceLevel:
    """What a request must meet to count as good."""

    max_ttft_ms: float
    max_tpot_ms: float


@dataclass(frozen=True)
class RunSummary:
    """One run, warm-up left out.

    Parameters
    ----------
    num_requests, num_failed, num_good
        Requests due after the warm-up; those that failed; those that met the service level.
    num_output_tokens
        Of the requests that ended.
    window_s
        From the end of the warm-up to the last token of these requests.
    times_ms
        By measure, ``mean`` and quantiles over the requests that ended and have one; an empty measure is missing.
    counts
        Draft steps by adapter, None for the base; missing where nothing counted them.
    num_adapter_loads
        Of the whole run, from disk; None where nobody counted.
    """

    num_requests: int
    num_failed: int
    num_good: int
    num_output_tokens: int
    window_s: float
    times_ms: Mapping[str, Mapping[str, float]]
    counts: Mapping[str | None, DraftCounts]
    num_adapter_loads: int | None
    num_cached_adapter_loads: int | None

    @property
    def output_throughput_tok_s(self) -> float:
        """Return output tokens per second."""
        return self.num_output_tokens / self.window_s

    @property
    def request_goodput_req_s(self) -> float:
        """Return requests per second that met the service level."""
        return self.num_good / self.window_s

    @property
    def failed_share(self) -> float:
        """Return the share of requests that failed."""
        return self.num_failed / self.num_requests

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; the base's counts stand under an empty name, which no adapter can have."""
        return {
            "num_requests": self.num_requests,
            "num_failed": self.num_failed,
            "num_good": self.num_good,
            "num_output_tokens": self.num_output_tokens,
            "window_s": self.window_s,
            "times_ms": {measure: dict(values) for measure, values in self.times_ms.items()},
            "counts": {name or "": counts.to_dict() for name, counts in self.counts.items()},
            "num_adapter_loads": self.num_adapter_loads,
            "num_cached_adapter_loads": self.num_cached_adapter_loads,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RunSummary":
        """Return the summary in plain data."""
        counts = {name or None: DraftCounts(**found) for name, found in data["counts"].items()}
        return cls(**{**data, "counts": counts})


def summarise(
    records: Sequence[RequestRecord],
    *,
    warmup_s: float,
    service_level: ServiceLevel,
    counts: Mapping[str | None, DraftCounts] | None = None,
    num_adapter_loads: int | None = None,
    num_cached_adapter_loads: int | None = None,
) -> RunSummary:
    """Return what the requests due after the warm-up came to.

    Raises
    ------
    MeasurementError
        None is due after it, or none of these ended: that is no run with zero throughput.
    """
    kept = counted(records, warmup_s=warmup_s)
    ended = [record for record in kept if record.error is None]
    if not ended:
        raise MeasurementError(
            f"of {len(records)} requests {len(kept)} were due after the warm-up of {warmup_s:g} s; none ended: "
            "the run failed, see its records"
        )
    return RunSummary(
        num_requests=len(kept),
        num_failed=len(kept) - len(ended),
        num_good=sum(
            record.is_good(max_ttft_ms=service_level.max_ttft_ms, max_tpot_ms=service_level.max_tpot_ms)
            for record in ended
        ),
        num_output_tokens=sum(record.num_output_tokens for record in ended),
        window_s=max(record.last_token_s for record in ended if record.last_token_s is not None) - warmup_s,
        times_ms={measure: found for measure in TIMES if (found := _statistics(ended, measure))},
        counts=counts or {},
        num_adapter_loads=num_adapter_loads,
        num_cached_adapter_loads=num_cached_adapter_loads,
    )


def _statistics(records: Sequence[RequestRecord], measure: str) -> dict[str, float]:
    values = [value for record in records if (value := getattr(record, measure)) is not None]
    if not values:
        return {}
    found = np.quantile(values, list(QUANTILES.values()))
    return {"mean": float(np.mean(values)), **dict(zip(QUANTILES, map(float, found), strict=True))}
