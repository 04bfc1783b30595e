"""The rounds of a soak on a running server, once it has settled.

Each round puts another policy in force; every third one then offers a file that is none, which must be refused. While
the round's traffic runs, by another pattern each time, some clients hang up in mid-flight, one adapter is loaded and
another unloaded. The base model is never asked for: vLLM 0.32 on a CPU does not serve it rightly beside adapters.
"""

import itertools
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from lora_spec.errors import EngineError, MeasurementError
from lora_spec.policy.policy_file import SCHEMA_VERSION
from lora_spec.results import json_bytes
from lora_spec.stress.live import LiveRun, offer_policy
from lora_spec.stress.load_generator import send_all
from lora_spec.stress.process_tree import tree_rss_mib
from lora_spec.stress.server_counters import ServerFilling, parse_filling
from lora_spec.stress.settling import Settling, settle
from lora_spec.stress.soak import Happened, Round, chosen_hang_ups, round_of
from lora_spec.traffic.schedule import ScheduledRequest, schedule_requests

_ANSWER_S = 30.0
_EMPTY_S = 30.0
_BROKEN_EVERY = 3
EXTRA = ("soak-even", "soak-odd")
"""Names of the adapters that come and go: two, in turn, so that counters by adapter do not grow for ever."""


@dataclass(frozen=True)
class SoakSettings:
    """How long, and how hard.

    Parameters
    ----------
    traffic
        Patterns and prompt lengths of ``traffic.yaml``, and ``output_tokens``.
    max_depth
        What the engine was started for.
    settle_s
        How long the server is brought to its working set before the first round, at most ``settle_batch`` requests at a
        time. It is part of no round, and none of ``duration_s``.
    max_model_len
        What the engine was started for.
    hang_up_share
        Share of the requests whose client hangs up.
    """

    duration_s: float
    round_s: float
    request_rate_req_s: float
    traffic: Mapping[str, Any]
    max_depth: int
    max_model_len: int
    settle_s: float
    settle_batch: int = 16
    hang_up_share: float = 0.15
    seed: int = 0


class Listener(Protocol):
    """Who is told what came of a soak, part by part."""

    def add_settling(self, found: Settling) -> None:
        """Take what the settling came to."""

    def add_round(self, found: Round) -> None:
        """Take a round that has ended."""


def soak(run: LiveRun, settings: SoakSettings, adapters: Mapping[str, Path], listener: Listener) -> None:
    """Settle the server, then run rounds until the time is over; ``listener`` gets each part as it ends.

    Parameters
    ----------
    adapters
        Folders of what the server was started with, by name. The server must let clients change adapters.

    Raises
    ------
    EngineError, MeasurementError
        The server died, or no longer says what is in it.
    """
    _must(change_adapter(run.server.base_url, EXTRA[0], next(iter(adapters.values()))))
    settling = settle(
        run,
        sorted(adapters),
        duration_s=settings.settle_s,
        max_model_len=settings.max_model_len,
        max_batch=settings.settle_batch,
        seed=settings.seed,
    )
    _must_answer(run, "settling")
    listener.add_settling(settling)
    started_s = time.monotonic()
    for index in itertools.count():
        rng = np.random.default_rng([settings.seed, index])
        listener.add_round(_round(run, settings, adapters, index=index, rng=rng, started_s=started_s))
        if time.monotonic() - started_s >= settings.duration_s:
            return


def _must(problem: str | None) -> None:
    if problem is not None:
        raise MeasurementError(f"an adapter could not be loaded into the running server: {problem}; see its log")


def _must_answer(run: LiveRun, part: str) -> None:
    if not run.server.is_answering():
        raise EngineError(f"{part}: the server's engine has died; see its log")


def _round(
    run: LiveRun,
    settings: SoakSettings,
    adapters: Mapping[str, Path],
    *,
    index: int,
    rng: np.random.Generator,
    started_s: float,
) -> Round:
    outcomes, problems = _offer_policies(run, settings, sorted(adapters), index=index, rng=rng)
    patterns = [pattern["name"] for pattern in settings.traffic["patterns"]]
    pattern = patterns[index % len(patterns)]
    requests = _requests(settings, pattern, [*sorted(adapters), EXTRA[index % 2]], index=index)
    changes = _Changes(run.server.base_url, _extra_changes(adapters, index), after_s=settings.round_s / 3)
    sending = replace(run.sending, aborted_after=chosen_hang_ups(requests, settings.hang_up_share, rng))
    with changes:
        sent = send_all(requests, run.prompt_of, sending)
    _must_answer(run, f"round {index}")
    return round_of(
        index,
        sent.records,
        Happened(pattern, tuple(outcomes), changes.num_done, (*problems, *changes.problems)),
        end_s=time.monotonic() - started_s,
        filling=_filling_once_empty(run),
        rss_mib=tree_rss_mib(run.server.pid),
    )


def _requests(
    settings: SoakSettings, pattern: str, adapters: Sequence[str], *, index: int
) -> tuple[ScheduledRequest, ...]:
    traffic = {**settings.traffic, "duration_s": settings.round_s}
    found = schedule_requests(
        traffic, pattern, adapters=adapters, rate_req_s=settings.request_rate_req_s, seed=settings.seed + index
    )
    # A short round may draw no arrival at all.
    return found or (ScheduledRequest(0, 0.0, adapters[0], 16, traffic["output_tokens"], index),)


def _offer_policies(
    run: LiveRun, settings: SoakSettings, adapters: Sequence[str], *, index: int, rng: np.random.Generator
) -> tuple[list[str], list[str]]:
    """Return what the server made of each file, and what of it was wrong."""
    offers = [("loaded", drawn_policy(adapters, settings.max_depth, rng))]
    if index % _BROKEN_EVERY == _BROKEN_EVERY - 1:
        kinds = broken_policies(adapters, settings.max_depth, rng)
        offers.append(("refused", kinds[(index // _BROKEN_EVERY) % len(kinds)]))
    outcomes = [offer_policy(run, data, poke=adapters[0]) for _, data in offers]
    wrong = [
        f"a policy that must be {wanted} was {outcome}"
        for (wanted, _), outcome in zip(offers, outcomes, strict=True)
        if outcome != wanted
    ]
    return outcomes, wrong


def first_policy(adapters: Sequence[str], settings: SoakSettings) -> bytes:
    """Return a policy file for a server to start with."""
    return drawn_policy(adapters, settings.max_depth, np.random.default_rng(settings.seed))


def drawn_policy(adapters: Sequence[str], max_depth: int, rng: np.random.Generator) -> bytes:
    """Return a policy file with depths drawn anew for every adapter and load."""
    ratios = [1.0 + 0.2 * depth for depth in range(max_depth + 1)]
    depths = {name: [int(depth) for depth in rng.integers(max_depth + 1, size=2)] for name in adapters}
    payload = {
        "max_num_speculative_tokens": max_depth,
        "loads": [{"max_batch_size": size, "step_time_ratios": ratios} for size in (2, 16)],
        "default": [max_depth, 1],
        "adapters": depths,
        "live": None,
    }
    return json_bytes({"kind": "policy", "schema_version": SCHEMA_VERSION, "payload": payload})


def broken_policies(adapters: Sequence[str], max_depth: int, rng: np.random.Generator) -> tuple[bytes, ...]:
    """Return files that must be refused: half of one, one for strangers, one too deep, and none at all."""
    whole = drawn_policy(adapters, max_depth, rng)
    strangers = drawn_policy([*adapters, "stranger"], max_depth, rng)
    too_deep = drawn_policy(adapters, max_depth + 1, rng)
    return whole[: len(whole) // 2], strangers, too_deep, b"\x00not a policy"


def _extra_changes(adapters: Mapping[str, Path], index: int) -> list[tuple[str, Path | None]]:
    """Return which adapter goes and comes in a round: the one that its traffic does not ask for."""
    folders = list(adapters.values())
    name = EXTRA[(index + 1) % 2]
    comes = (name, folders[(index + 1) % len(folders)])
    return [comes] if index == 0 else [(name, None), comes]


class _Changes:
    """Changes adapters beside the traffic of a ``with`` block, some time after its start."""

    def __init__(self, base_url: str, changes: Sequence[tuple[str, Path | None]], *, after_s: float) -> None:
        self._base_url = base_url
        self._changes = changes
        self._after_s = after_s
        self._thread = threading.Thread(target=self._run)
        self.num_done = 0
        self.problems: list[str] = []

    def _run(self) -> None:
        time.sleep(self._after_s)
        for name, path in self._changes:
            problem = change_adapter(self._base_url, name, path)
            if problem is None:
                self.num_done += 1
            else:
                done = "unloaded" if path is None else "loaded"
                self.problems.append(f"adapter {name} could not be {done}: {problem}")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._thread.join()


def _filling_once_empty(run: LiveRun) -> ServerFilling:
    """Return what is in the server once it is empty, or what is still there after a while: hang-ups take a step."""
    filling = ServerFilling(0, 0.0)
    for filling in _fillings(run):
        if not filling.num_requests and not filling.kv_cache_share:
            break
    return filling


def _fillings(run: LiveRun) -> Iterator[ServerFilling]:
    deadline_s = time.monotonic() + _EMPTY_S
    while time.monotonic() < deadline_s:
        yield parse_filling(run.server.metrics_text())
        time.sleep(0.5)


def change_adapter(base_url: str, name: str, path: Path | None) -> str | None:
    """Load an adapter into a running server, or unload it where no path is given; return what was wrong."""
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
