"""Policies on one running server, one trial after another: only the policy file changes between them."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from lora_spec.errors import EngineError, MeasurementError, ResultError
from lora_spec.measurement.machine_load import Patience
from lora_spec.measurement.progress import tell, with_progress
from lora_spec.results import read_json, write_bytes_atomically, write_json_atomically
from lora_spec.stress.load_generator import Sending, Sent, send_all
from lora_spec.stress.process_tree import TrialMeter
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.server_counters import ServerCounters, parse_counters
from lora_spec.traffic.schedule import ScheduledRequest

_POLL_S = 0.25
_RELOAD_S = 30.0
PromptOf = Callable[[ScheduledRequest], Sequence[int]]


class Server(Protocol):
    """What of :class:`lora_spec.engines.vllm_server.VllmServer` is needed here."""

    @property
    def base_url(self) -> str:
        """Return the address."""

    @property
    def pid(self) -> int:
        """Return the process whose descendants are the server."""

    def is_alive(self) -> bool:
        """Return whether it still runs."""

    def is_answering(self) -> bool:
        """Return whether its engine is well."""

    def metrics_text(self) -> str:
        """Return what ``/metrics`` says."""


@dataclass(frozen=True)
class Trial:
    """One trial to run: a policy's file and the requests it meets.

    Parameters
    ----------
    inputs_sha256
        Of all that its numbers depend on: a finished trial of other inputs is not taken over.
    """

    name: str
    policy: bytes
    requests: Sequence[ScheduledRequest]
    inputs_sha256: str


@dataclass(frozen=True)
class TrialRecord:
    """What came of a trial; ``failure`` says why it counts for nothing but what it holds.

    Parameters
    ----------
    counts
        Draft counts by adapter, as :class:`~lora_spec.records.AcceptanceCounts`.
    num_changes, num_adapter_loads
        Changes by live acceptance, by adapter; adapters made ready, by kind.
    generator_cores, server_cores, other_cores
        Cores that client, server and all else used.
    """

    name: str
    inputs_sha256: str
    records: tuple[RequestRecord, ...]
    counts: dict[str, dict[str, Any]]
    num_changes: dict[str, int]
    num_adapter_loads: dict[str, int]
    wall_s: float
    generator_cores: float
    server_cores: float
    other_cores: float
    load_before: float
    load_after: float
    failure: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TrialRecord":
        """Return the record in plain data."""
        records = tuple(RequestRecord.from_dict(record) for record in data["records"])
        return cls(**{**data, "records": records})


@dataclass(frozen=True)
class LiveRun:
    """Where trials run: a server, the policy file that it watches, the folder that keeps what is done.

    Parameters
    ----------
    patience
        A trial beside which others computed is run again once the machine is quiet; None keeps every trial.
    """

    server: Server
    prompt_of: PromptOf
    policy_path: Path
    state_dir: Path
    sending: Sending
    patience: Patience | None = None


def run_trials(run: LiveRun, trials: Sequence[Trial]) -> list[TrialRecord]:
    """Run the trials that are not kept yet, in the order given, and return all.

    A trial's requests are written as they end, and the trial when it is over, so that a run that is cut goes on.

    Raises
    ------
    MeasurementError
        The server died: the trial is kept, marked as failed, with what had ended; or it did not take a policy; or the
        machine stayed busy.
    """
    waiting = [trial for trial in trials if kept_trial(run.state_dir, trial) is None]
    if waiting:
        _warm_up(run, trials)
    for trial in with_progress(waiting, total=len(waiting), doing="trials on the server", unit="trial"):
        _run_until_quiet(run, trial)
    return [record for trial in trials if (record := kept_trial(run.state_dir, trial)) is not None]


def kept_trial(state_dir: Path, trial: Trial) -> TrialRecord | None:
    """Return a finished trial; None for one that is not there, cannot be read, or is of other inputs."""
    path = trial_path(state_dir, trial)
    if not path.exists():
        return None
    try:
        record = TrialRecord.from_dict(read_json(path))
    except (ResultError, TypeError, KeyError):
        return None
    return record if record.inputs_sha256 == trial.inputs_sha256 else None


def trial_path(state_dir: Path, trial: Trial) -> Path:
    """Return where a finished trial is kept."""
    return state_dir / f"{trial.name}.json"


def _warm_up(run: LiveRun, trials: Sequence[Trial]) -> None:
    """Send every adapter one short request: a server's first steps are slow, and adapters are read from disk."""
    adapters = sorted({request.adapter or "" for trial in trials for request in trial.requests})
    requests = [ScheduledRequest(i, 0.0, adapter or None, 16, 4, i) for i, adapter in enumerate(adapters)]
    sent = send_all(requests, run.prompt_of, run.sending)
    if errors := [record.error for record in sent.records if record.error is not None]:
        raise MeasurementError(f"the server does not serve: {errors[0]}; see its log")


def _run_until_quiet(run: LiveRun, trial: Trial) -> None:
    while True:
        record = _run_trial(run, trial)
        if record.failure is not None:
            path = trial_path(run.state_dir, trial)
            raise MeasurementError(f"trial {trial.name}: {record.failure}; what had ended is in {path}.failed")
        if run.patience is None or record.other_cores <= run.patience.max_other_cores:
            write_json_atomically(trial_path(run.state_dir, trial), record.to_dict())
            tell_trial(record)
            return
        run.patience.wait(record.other_cores, doing=f"trial {trial.name}, to be run again")


def _run_trial(run: LiveRun, trial: Trial) -> TrialRecord:
    path = trial_path(run.state_dir, trial)
    put_policy(run, trial)
    before = parse_counters(run.server.metrics_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    partial_path = path.with_suffix(".partial")
    with TrialMeter(run.server.pid) as meter, partial_path.open("w") as partial:

        def keep(record: RequestRecord) -> None:
            partial.write(json.dumps(record.to_dict()) + "\n")
            partial.flush()

        sent = send_all(trial.requests, run.prompt_of, run.sending, on_record=keep)
    after, failure = _last_reading(run.server, before)
    record = _record_of(trial, sent, meter, before, after, failure)
    if failure is not None:
        write_json_atomically(path.with_suffix(".json.failed"), record.to_dict())
    partial_path.unlink()
    return record


def _last_reading(server: Server, before: ServerCounters) -> tuple[ServerCounters, str | None]:
    """Return the counters after a trial, and why the trial failed: a server that died must not pass for a slow one."""
    try:
        after = parse_counters(server.metrics_text())
        if server.is_answering():
            return after, None
        return after, "the server's engine is not well"
    except EngineError as err:
        return before, f"the server {'does not answer' if server.is_alive() else 'has died'} ({err})"


def _record_of(
    trial: Trial,
    sent: Sent,
    meter: TrialMeter,
    before: ServerCounters,
    after: ServerCounters,
    failure: str | None,
) -> TrialRecord:
    return TrialRecord(
        name=trial.name,
        inputs_sha256=trial.inputs_sha256,
        records=sent.records,
        counts={name: asdict(counts) for name, counts in after.since(before).items()},
        num_changes=_grown(before.num_changes, after.num_changes),
        num_adapter_loads={"load": 0, "place": 0} | _grown(before.num_adapter_loads, after.num_adapter_loads),
        wall_s=sent.wall_s,
        generator_cores=sent.generator_cores,
        server_cores=meter.server_cores,
        other_cores=meter.other_cores,
        load_before=meter.load_before,
        load_after=meter.load_after,
        failure=failure,
    )


def _grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    grown = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in grown.items() if count}


def put_policy(run: LiveRun, trial: Trial) -> None:
    """Put a policy in force: the file is replaced, and short requests make the scheduler look at it.

    Raises
    ------
    MeasurementError
        The server refused the policy, or did not look at it in time.
    """
    outcome = offer_policy(run, trial.policy, poke=trial.requests[0].adapter)
    if outcome != "loaded":
        raise MeasurementError(f"trial {trial.name}: {run.policy_path} was {outcome}; the server's log says why")


def offer_policy(run: LiveRun, policy: bytes, *, poke: str | None) -> str:
    """Replace the policy file and return what the server made of it: ``loaded``, ``refused`` or ``not looked at``.

    Parameters
    ----------
    poke
        Adapter of the requests that make the scheduler take a step.
    """
    before = parse_counters(run.server.metrics_text()).num_policies
    write_bytes_atomically(run.policy_path, policy)
    deadline_s = time.monotonic() + _RELOAD_S
    while time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
        send_all([ScheduledRequest(0, 0.0, poke, 8, 2, 0)], run.prompt_of, run.sending)
        now = parse_counters(run.server.metrics_text()).num_policies
        for outcome in ("refused", "loaded"):
            if now.get(outcome, 0) > before.get(outcome, 0):
                return outcome
    return "not looked at"


def tell_trial(record: TrialRecord) -> None:
    """Say in one line what a trial came to."""
    ended = sum(item.error is None for item in record.records)
    tell(f"{record.name}: {ended} of {len(record.records)} requests ended in {record.wall_s:.0f} s")
