"""An hour of everything at once: what a round of it came to, and whether the whole of it passes.

The run goes in rounds (:mod:`lora_spec.stress.soak_run`), after a settling (:mod:`lora_spec.stress.settling`). After
each round the server must have no request left, and its memory is written down by process: a leak shows as a slope
over rounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lora_spec.stress.load_generator import ABORTED
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.server_counters import ServerFilling
from lora_spec.stress.settling import Settling
from lora_spec.traffic.schedule import ScheduledRequest

_LEAST_JUDGED_S = 1200.0
"""Memory is judged over so long at least: over minutes one new block of an allocator would be a steep slope."""


@dataclass(frozen=True)
class Round:
    """One round of the soak.

    Parameters
    ----------
    rss_mib
        Memory of the server's processes by name, MiB, when it was empty.
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
    rss_mib: dict[str, float]
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
    rss_mib: Mapping[str, float],
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
        rss_mib=dict(rss_mib),
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


def memory_slopes_mib_per_hour(rounds: Sequence[Round]) -> dict[str, float] | None:
    """Return the least-squares slope of memory over time by process, and of all as ``total``.

    None below three rounds. A process that is not there in a round has no memory then.
    """
    if len(rounds) < 3:
        return None
    hours = np.array([item.end_s for item in rounds]) / 3600
    names = sorted({name for item in rounds for name in item.rss_mib})
    by_name = np.array([[item.rss_mib.get(name, 0.0) for name in names] for item in rounds])
    memory = np.column_stack([by_name, by_name.sum(axis=1)])
    slopes = np.polyfit(hours, memory, 1)[0]
    return dict(zip([*names, "total"], slopes.tolist(), strict=True))


def judge_soak(
    rounds: Sequence[Round], *, settling: Settling | None, failure: str | None, max_slope_mib_per_hour: float
) -> dict[str, Any]:
    """Return counts over all rounds, the slopes of memory, and whether the soak passes.

    Parameters
    ----------
    settling
        None where the run did not get so far.
    failure
        Why the run ended before its time; None where it did not.
    max_slope_mib_per_hour
        Growth of all processes together that passes for none; judged over all rounds of a run of 20 minutes at least.
    """
    slopes = memory_slopes_mib_per_hour(rounds)
    is_judged = slopes is not None and rounds[-1].end_s - rounds[0].end_s >= _LEAST_JUDGED_S
    problems = list(settling.problems) if settling else []
    problems += [f"round {item.index}: {problem}" for item in rounds for problem in item.problems]
    problems += [failure] if failure else []
    problems += [] if rounds else ["no round was finished"]
    if is_judged and slopes is not None and slopes["total"] > max_slope_mib_per_hour:
        problems.append(f"memory grows by {slopes['total']:.0f} MiB per hour, allowed are {max_slope_mib_per_hour:g}")
    sums = ("num_sent", "num_ended", "num_aborted", "num_failed", "num_left", "num_adapter_changes")
    sums += ("num_policies_loaded", "num_policies_refused")
    return {
        "num_rounds": len(rounds),
        **{name: sum(getattr(item, name) for item in rounds) for name in sums},
        "memory_slopes_mib_per_hour": slopes,
        "is_memory_judged": is_judged,
        "max_slope_mib_per_hour": max_slope_mib_per_hour,
        "problems": problems,
        "is_passed": not problems,
    }
