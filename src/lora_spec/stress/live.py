"""Policies on one running server, one trial after another: only the policy file changes between them."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from lora_spec.errors import EngineError, MeasurementError
from lora_spec.results import read_json, write_bytes_atomically, write_json_atomically
from lora_spec.stress.load_generator import Sending, send_all
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.server_counters import ServerCounters, parse_counters
from lora_spec.traffic.schedule import ScheduledRequest

_POLL_S = 0.5
_RELOAD_S = 30.0


class Server(Protocol):
    """What of :class:`lora_spec.engines.vllm_server.VllmServer` is needed here."""

    @property
    def base_url(self) -> str:
        """Return the address."""

    def is_alive(self) -> bool:
        """Return whether it still runs."""

    def metrics_text(self) -> str:
        """Return what ``/metrics`` says."""


@dataclass(frozen=True)
class Trial:
    """One trial to run: a policy's file and the requests it meets."""

    name: str
    policy: bytes
    requests: Sequence[ScheduledRequest]
    circumstances: Mapping[str, Any]


@dataclass(frozen=True)
class TrialRecord:
    """What came of a trial; counts are by adapter, ``failure`` says why it counts for nothing but what it holds."""

    name: str
    circumstances: dict[str, Any]
    records: tuple[RequestRecord, ...]
    counts: dict[str, dict[str, Any]]
    num_changes: dict[str, int]
    wall_s: float
    generator_cores: float
    failure: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def run_trials(
    server: Server,
    trials: Sequence[Trial],
    prompt_of: Callable[[ScheduledRequest], Sequence[int]],
    *,
    policy_path: Path,
    state_dir: Path,
    base_model: str,
    drain_s: float = 120.0,
) -> list[TrialRecord]:
    """Run the trials that ``state_dir`` does not hold yet, in the order given, and return all.

    A trial's requests are written as they end, and the trial when it is over, so that a run that is cut goes on.

    Raises
    ------
    MeasurementError
        The server died: the trial is kept, marked as failed, with what had ended; or it did not take a policy.
    """
    sending = Sending(server.base_url, base_model, drain_s)
    found = []
    for trial in trials:
        path = state_dir / f"{trial.name}.json"
        if not path.exists():
            record = _run_trial(server, trial, prompt_of, policy_path=policy_path, sending=sending, path=path)
            if record.failure is not None:
                raise MeasurementError(f"trial {trial.name}: {record.failure}; what had ended is in {path}.failed")
        found.append(_read_trial(path))
    return found


def _run_trial(
    server: Server,
    trial: Trial,
    prompt_of: Callable[[ScheduledRequest], Sequence[int]],
    *,
    policy_path: Path,
    sending: Sending,
    path: Path,
) -> TrialRecord:
    put_policy(server, trial, prompt_of, policy_path=policy_path, sending=sending)
    before = parse_counters(server.metrics_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".partial").open("w") as partial:

        def keep(record: RequestRecord) -> None:
            partial.write(json.dumps(record.to_dict()) + "\n")
            partial.flush()

        sent = send_all(trial.requests, prompt_of, sending, on_record=keep)
    failure, after = None, before
    try:
        after = parse_counters(server.metrics_text())
    except EngineError as err:
        failure = f"the server {'does not answer' if server.is_alive() else 'has died'} ({err})"
    record = TrialRecord(
        name=trial.name,
        circumstances=dict(trial.circumstances),
        records=sent.records,
        counts={name: asdict(counts) for name, counts in after.since(before).items()},
        num_changes=_changes(before, after),
        wall_s=sent.wall_s,
        generator_cores=sent.generator_cores,
        failure=failure,
    )
    write_json_atomically(path if failure is None else path.with_suffix(".json.failed"), record.to_dict())
    path.with_suffix(".partial").unlink()
    return record


def _changes(before: ServerCounters, after: ServerCounters) -> dict[str, int]:
    changed = {name: count - before.num_changes.get(name, 0) for name, count in after.num_changes.items()}
    return {name: count for name, count in changed.items() if count}


def put_policy(
    server: Server,
    trial: Trial,
    prompt_of: Callable[[ScheduledRequest], Sequence[int]],
    *,
    policy_path: Path,
    sending: Sending,
) -> None:
    """Put a policy in force: the file is replaced, and a short request makes the scheduler look at it.

    Raises
    ------
    MeasurementError
        The server refused the policy, or did not look at it in time.
    """
    before = parse_counters(server.metrics_text()).num_policies
    write_bytes_atomically(policy_path, trial.policy)
    deadline_s = time.monotonic() + _RELOAD_S
    while time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
        poke = ScheduledRequest(0, 0.0, trial.requests[0].adapter, 8, 2, 0)
        send_all([poke], prompt_of, sending)
        now = parse_counters(server.metrics_text()).num_policies
        if now.get("refused", 0) > before.get("refused", 0):
            raise MeasurementError(f"trial {trial.name}: the server refused {policy_path}; its log says why")
        if now.get("loaded", 0) > before.get("loaded", 0):
            return
    raise MeasurementError(f"trial {trial.name}: the server did not look at {policy_path} in {_RELOAD_S:g} s")


def _read_trial(path: Path) -> TrialRecord:
    data = read_json(path)
    records = tuple(RequestRecord.from_dict(record) for record in data.pop("records"))
    return TrialRecord(records=records, **data)
