"""A live run: a server per cache mode, its trials one by one, and what came of all of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lora_spec.engines.server_options import SERVED_MODEL, ServerOptions
from lora_spec.engines.vllm_server import VllmServer
from lora_spec.errors import LoraSpecError
from lora_spec.measurement.lock import folder_lock, machine_lock
from lora_spec.measurement.machine_load import Patience
from lora_spec.results import write_bytes_atomically, write_json_atomically
from lora_spec.stress.live import LiveRun, PromptOf, TrialRecord, kept_trial, run_trials
from lora_spec.stress.live_plan import PlannedTrial, slots
from lora_spec.stress.load_generator import Sending
from lora_spec.stress.process_tree import TrialMeter

Done = list[tuple[PlannedTrial, TrialRecord]]


@dataclass(frozen=True)
class LiveCampaign:
    """A plan, and what it is run with.

    Parameters
    ----------
    options
        Of a server with all adapters in slots; slots and policy file are set for each cache mode.
    state_dir
        Holds finished trials, server logs, and ``run.json``, which says how the run stands.
    """

    traffic: Mapping[str, Any]
    planned: Mapping[str, Sequence[PlannedTrial]]
    options: ServerOptions
    prompt_of: PromptOf
    state_dir: Path
    start_timeout_s: float = 300.0


def measure_live(campaign: LiveCampaign, *, lock: Callable[[], AbstractContextManager[None]] = machine_lock) -> Done:
    """Run what is not done yet, alone on the machine, and return all trials in the order of the plan.

    Raises
    ------
    EngineError, MeasurementError
        A server did not start or died, or the machine stayed busy. Finished trials are kept, ``run.json`` says that
        the run failed, and the same call goes on.
    """
    with folder_lock(campaign.state_dir), lock():
        try:
            done = [pair for mode in campaign.planned for pair in _measure_mode(campaign, mode)]
        except LoraSpecError as err:
            _note(campaign, status="failed", reason=str(err))
            raise
        _note(campaign, status="finished", reason=None)
    return done


def _measure_mode(campaign: LiveCampaign, mode: str) -> Done:
    planned = campaign.planned[mode]
    trials = [item.trial for item in planned]
    kept = [kept_trial(campaign.state_dir, trial) for trial in trials]
    if any(record is None for record in kept):
        kept = list(_run_mode(campaign, mode))
    return [(item, record) for item, record in zip(planned, kept, strict=True) if record is not None]


def _run_mode(campaign: LiveCampaign, mode: str) -> list[TrialRecord]:
    live, trials = campaign.traffic["live"], [item.trial for item in campaign.planned[mode]]
    policy_path = campaign.state_dir / "policy.json"
    write_bytes_atomically(policy_path, trials[0].policy)
    num_slots = slots(campaign.traffic, mode, len(campaign.options.adapters))
    options = replace(campaign.options, max_loras=num_slots, max_cpu_loras=num_slots, policy=policy_path)
    log = campaign.state_dir / f"server-{mode}.log"
    with VllmServer(options, log=log, start_timeout_s=campaign.start_timeout_s) as server:
        run = LiveRun(
            server=server,
            prompt_of=campaign.prompt_of,
            policy_path=policy_path,
            state_dir=campaign.state_dir,
            sending=Sending(server.base_url, SERVED_MODEL, live["drain_s"]),
            patience=Patience(live["max_other_cores"], live["max_wait_s"], meter=partial(TrialMeter, server.pid)),
        )
        return run_trials(run, trials)


def _note(campaign: LiveCampaign, *, status: str, reason: str | None) -> None:
    """Write how the run stands: a run that failed must not be taken for one that is finished, or for none."""
    all_trials = [item.trial for planned in campaign.planned.values() for item in planned]
    finished = [trial.name for trial in all_trials if kept_trial(campaign.state_dir, trial) is not None]
    told = {"status": status, "reason": reason, "finished": finished, "num_planned": len(all_trials)}
    write_json_atomically(campaign.state_dir / "run.json", told)
