"""An hour of everything at once: what a round of it came to, and whether the whole of it passes.

The run goes in rounds (:mod:`lora_spec.stress.soak_run`). After each round the server must have no request left, and
its memory is written down: a leak shows as a slope over rounds.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lora_spec.stress.load_generator import ABORTED
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.server_counters import ServerFilling
from lora_spec.traffic.schedule import ScheduledRequest

_LEAST_JUDGED_S = 1200.0
"""Memory is judged over so long at least: allocators take what they keep in the first minutes."""


@dataclass(frozen=True)
class Round:
    """One round of the soak; memory is that of the server's processes.

    Parameters
    ----------
    num_left, kv_cache_share
        What was still in the server when all clients had their answers or had hung up.
    problems
        What did not go as it must, such as a broken policy that was taken.
    """

    index: int
    end_s: float
    pattern: str
    num_sent: int
    num_ended: int
    num_aborted: int
    num_failed: int
    num_left: int
    kv_cache_share: float
    rss_mib: float
    num_policies_loaded: int
    num_policies_refused: int
    num_adapter_changes: int
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Happened:
    """What a round did beside its requests."""

    pattern: str
    outcomes: tuple[str, ...]
    num_adapter_changes: int
    problems: tuple[str, ...]


def round_of(
    index: int,
    records: Sequence[RequestRecord],
    happened: Happened,
    *,
    end_s: float,
    filling: ServerFilling,
    rss_mib: float,
) -> Round:
    """Return a round from what came of its requests."""
    failures = [str(record.error) for record in records if record.error not in (None, ABORTED)]
    left = [f"{filling.num_requests} requests left in the server"] if filling.num_requests else []
    left += [f"{filling.kv_cache_share:.1%} of the cache still taken"] if filling.kv_cache_share > 0 else []
    return Round(
        index=index,
        end_s=end_s,
        pattern=happened.pattern,
        num_sent=len(records),
        num_ended=sum(record.error is None for record in records),
        num_aborted=sum(record.error == ABORTED for record in records),
        num_failed=len(failures),
        num_left=filling.num_requests,
        kv_cache_share=filling.kv_cache_share,
        rss_mib=rss_mib,
        num_policies_loaded=happened.outcomes.count("loaded"),
        num_policies_refused=happened.outcomes.count("refused"),
        num_adapter_changes=happened.num_adapter_changes,
        problems=(*happened.problems, *(f"request failed: {failure}" for failure in failures[:3]), *left),
    )


def chosen_hang_ups(requests: Sequence[ScheduledRequest], share: float, rng: np.random.Generator) -> dict[int, int]:
    """Return which requests are hung up on, and after how many chunks (at least one, fewer than all)."""
    return {
        request.index: int(rng.integers(1, max(2, request.num_output_tokens // 2)))
        for request in requests
        if rng.random() < share
    }


def memory_slope_mib_per_hour(rounds: Sequence[Round], *, num_settling: int) -> float | None:
    """Return the least-squares slope of memory over time, the first rounds left out; None below three rounds."""
    settled = rounds[num_settling:]
    if len(settled) < 3:
        return None
    hours = np.array([item.end_s for item in settled]) / 3600
    return float(np.polyfit(hours, [item.rss_mib for item in settled], 1)[0])


def judge_soak(rounds: Sequence[Round], *, failure: str | None, max_slope_mib_per_hour: float) -> dict[str, Any]:
    """Return counts over all rounds, the slope of memory, and whether the soak passes.

    Parameters
    ----------
    failure
        Why the run ended before its time; None where it did not.
    max_slope_mib_per_hour
        Growth that passes for none; judged over the last three quarters of a run that gives them 20 minutes at least.
    """
    num_settling = max(1, len(rounds) // 4)
    slope = memory_slope_mib_per_hour(rounds, num_settling=num_settling)
    judged_s = rounds[-1].end_s - rounds[num_settling].end_s if len(rounds) > num_settling else 0.0
    is_judged = slope is not None and judged_s >= _LEAST_JUDGED_S
    problems = [f"round {item.index}: {problem}" for item in rounds for problem in item.problems]
    problems += [failure] if failure else []
    problems += [] if rounds else ["no round was finished"]
    if is_judged and slope is not None and slope > max_slope_mib_per_hour:
        problems.append(f"memory grows by {slope:.0f} MiB per hour, allowed are {max_slope_mib_per_hour:g}")
    sums = ("num_sent", "num_ended", "num_aborted", "num_failed", "num_left", "num_adapter_changes")
    sums += ("num_policies_loaded", "num_policies_refused")
    return {
        "num_rounds": len(rounds),
        **{name: sum(getattr(item, name) for item in rounds) for name in sums},
        "memory_slope_mib_per_hour": slope,
        "is_memory_judged": is_judged,
        "max_slope_mib_per_hour": max_slope_mib_per_hour,
        "num_settling_rounds": num_settling,
        "problems": problems,
        "is_passed": not problems,
    }
