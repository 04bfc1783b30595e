"""An hour of everything at once: mixed traffic, policies that change, files that are no policy, adapters, hang-ups.

The run goes in rounds. Before each round another policy is put in force, every few rounds after a file that is none; an
adapter is loaded and another unloaded; some clients hang up. After each round the server must have no request left, and
its memory is written down: a leak shows as a slope over rounds.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lora_spec.stress.load_generator import ABORTED
from lora_spec.stress.request_record import RequestRecord
from lora_spec.traffic.schedule import ScheduledRequest

_ANSWER_S = 30.0


@dataclass(frozen=True)
class Round:
    """One round of the soak; memory is that of the server's whole process group."""

    index: int
    end_s: float
    num_sent: int
    num_ended: int
    num_aborted: int
    num_failed: int
    num_left: int
    rss_mib: float
    num_policies_loaded: int
    num_policies_refused: int
    first_failures: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def round_of(
    index: int,
    records: Sequence[RequestRecord],
    *,
    end_s: float,
    num_left: int,
    rss_mib: float,
    policies: Mapping[str, int],
) -> Round:
    """Return a round from what came of its requests."""
    failures = [record.error for record in records if record.error not in (None, ABORTED)]
    return Round(
        index=index,
        end_s=end_s,
        num_sent=len(records),
        num_ended=sum(record.error is None for record in records),
        num_aborted=sum(record.error == ABORTED for record in records),
        num_failed=len(failures),
        num_left=num_left,
        rss_mib=rss_mib,
        num_policies_loaded=policies.get("loaded", 0),
        num_policies_refused=policies.get("refused", 0),
        first_failures=tuple(str(failure) for failure in failures[:3]),
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


def change_adapter(base_url: str, name: str, path: Path | None) -> str | None:
    """Load an adapter into a running server, or unload it where no path is given; return what was wrong.

    The server must have been started with ``VLLM_ALLOW_RUNTIME_LORA_UPDATING=1``.
    """
    body: dict[str, Any] = {"lora_name": name} | ({} if path is None else {"lora_path": str(path)})
    request = urllib.request.Request(
        f"{base_url}/v1/{'unload' if path is None else 'load'}_lora_adapter",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S):
            return None
    except urllib.error.HTTPError as err:
        return f"status {err.code}: {err.read()[:200].decode(errors='replace')}"
    except OSError as err:
        return str(err)
