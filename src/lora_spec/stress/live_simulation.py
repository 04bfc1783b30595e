"""The simulator on exactly the schedules of a live run: how far off is it, and does it order the policies alike?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.errors import ResultError
from lora_spec.policy.policy_file import SCHEMA_VERSION, Policy, PolicyError, parse_policy
from lora_spec.results import json_bytes
from lora_spec.stress.live_summary import by_scenario, pool_trials
from lora_spec.stress.live_table import LiveStress, LiveTrialPayload
from lora_spec.stress.policies.base import Rates
from lora_spec.stress.policies.controlled import ControlledChooser
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.simulator.fleet import Fleet, simulate
from lora_spec.stress.simulator.settings import ServerSettings, SimulatedAdapter
from lora_spec.stress.summary import RunSummary
from lora_spec.stress.trial_noise import against_noise
from lora_spec.stress.validation import MAX_ERROR, Validation, compare_with_real, median_tpot
from lora_spec.traffic.schedule import ScheduledRequest

Records = tuple[RequestRecord, ...]
"""Requests of one run."""

_NUM_LUCKS = 16
"""Draws of accepted drafts per trial, so that what differs is the simulator and not its luck."""


def validate_on_live(
    live: LiveStress, cost: StepCostModel, acceptance: Mapping[str, Rates], *, num_lucks: int = _NUM_LUCKS
) -> dict[str, Any]:
    """Return, by scenario, simulated against real: the payload of ``simulator_validation``.

    Trials of a policy are pooled. Acceptance is that measured before any traffic; none of it, and no step time, was
    fitted to the live run.

    Parameters
    ----------
    num_lucks
        Draws of accepted drafts that each trial is simulated with; their times are one sample.

    Raises
    ------
    ResultError
        An adapter in traffic has no measured acceptance.
    """
    names = [adapter["name"] for adapter in live.payload["adapters"]]
    if missing := sorted(set(names) - set(acceptance)):
        raise ResultError(f"adapter {missing[0]!r} was in live traffic and has no measured acceptance; estimate it")

    def simulate_lucks(trial: LiveTrialPayload) -> list[Records]:
        return [simulate_trial(live, trial, cost, acceptance, luck=luck) for luck in range(num_lucks)]

    scenarios = [_validated(live, trials, simulate_lucks) for trials in by_scenario(live).values()]
    return {
        "max_error": MAX_ERROR,
        "num_lucks": num_lucks,
        "is_passed": all(item["is_passed"] for item in scenarios),
        "num_passed": sum(item["is_passed"] for item in scenarios),
        "scenarios": scenarios,
        "acceptance": _acceptance(live, acceptance),
    }


def _pooled_lucks(live: LiveStress, runs: Sequence[Records], num_lucks: int) -> RunSummary:
    """Return simulated runs as one; counts are those of one draw of luck, rates and times of all."""
    pooled = pool_trials(live, runs)
    return replace(pooled, num_requests=pooled.num_requests // num_lucks)


def _validated(
    live: LiveStress, trials: Sequence[LiveTrialPayload], simulate_lucks: Callable[[LiveTrialPayload], list[Records]]
) -> dict[str, Any]:
    real, simulated = {}, {}
    real_ms: dict[str, dict[int, float]] = {}
    simulated_ms: dict[str, dict[int, float]] = {}
    for policy in dict.fromkeys(trial["policy"] for trial in trials):
        own = {trial["seed"]: trial for trial in trials if trial["policy"] == policy}
        served = {seed: live.records[trial["trial"]] for seed, trial in own.items()}
        lucks = {seed: simulate_lucks(trial) for seed, trial in own.items()}
        real[policy] = pool_trials(live, list(served.values()))
        runs = [run for found in lucks.values() for run in found]
        simulated[policy] = _pooled_lucks(live, runs, len(runs) // len(own))
        real_ms[policy] = {seed: _median_tpot(live, policy, [run]) for seed, run in served.items()}
        simulated_ms[policy] = {seed: _median_tpot(live, policy, found) for seed, found in lucks.items()}
    found: Validation = compare_with_real(simulated, real)
    place = {key: trials[0][key] for key in ("pattern", "cache_mode", "request_rate_req_s")}  # type: ignore[literal-required]
    errors = {policy: item.p50_tpot_error for policy, item in found.policies.items()}
    beside = against_noise(real_ms, simulated_ms, errors)
    return {**place, **found.to_dict(), **beside, "live": _told(real), "simulated": _told(simulated)}


def _median_tpot(live: LiveStress, policy: str, runs: Sequence[Records]) -> float:
    return median_tpot(policy, pool_trials(live, runs))


def _told(runs: Mapping[str, RunSummary]) -> dict[str, dict[str, Any]]:
    return {
        policy: {
            "num_requests": run.num_requests,
            "output_throughput_tok_s": run.output_throughput_tok_s,
            "times_ms": {measure: dict(values) for measure, values in run.times_ms.items()},
        }
        for policy, run in runs.items()
    }


def simulate_trial(
    live: LiveStress, trial: LiveTrialPayload, cost: StepCostModel, acceptance: Mapping[str, Rates], *, luck: int = 0
) -> tuple[RequestRecord, ...]:
    """Return the requests of a live trial as the simulator serves them, under the same policy file and slots."""
    policy, traffic = policy_of(live, trial), live.payload["traffic"]
    ranks = {adapter["name"]: adapter["lora_rank"] for adapter in live.payload["adapters"]}
    adapters = tuple(SimulatedAdapter(name, rank, acceptance[name]) for name, rank in ranks.items())
    engine = live.payload["engine"]
    server = simulated_server(
        cost,
        max_num_seqs=engine["max_num_seqs"],
        max_num_batched_tokens=engine["max_num_batched_tokens"],
        num_slots=live.payload["slots"][trial["cache_mode"]],
        lora_rank=max(ranks.values()),
    )
    requests = [
        ScheduledRequest(
            record.index, record.due_s, record.adapter, record.num_prompt_tokens, traffic["output_tokens"], 0
        )
        for record in live.records[trial["trial"]]
    ]
    make = partial(ControlledChooser, policy, max_depth=engine["num_speculative_tokens"])
    run = simulate(
        requests,
        Fleet(server, cost, adapters),
        make,
        seed=trial["seed"] + 1000 * luck,
        warmup_s=traffic["warmup_s"],
        drain_s=traffic["drain_s"],
    )
    return run.records


def policy_of(live: LiveStress, trial: LiveTrialPayload) -> Policy:
    """Return the policy that a trial ran under, read as the engine read it."""
    payload = live.payload["policies"][trial["policy_sha256"]]
    data = json_bytes({"kind": "policy", "schema_version": SCHEMA_VERSION, "payload": payload})
    try:
        return parse_policy(data, max_depth=live.payload["engine"]["num_speculative_tokens"])
    except PolicyError as err:
        raise ResultError(f"{live.result.path}: trial {trial['trial']!r}: {err}; measure again") from err


def simulated_server(
    cost: StepCostModel, *, max_num_seqs: int, max_num_batched_tokens: int, num_slots: int, lora_rank: int
) -> ServerSettings:
    """Return a server's limits; slots and main memory hold alike, and placing is what the cost model measured."""
    return ServerSettings(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_loras=num_slots,
        max_cpu_loras=num_slots,
        cached_load_share=min(1.0, cost.adapter_place_ms(lora_rank) / max(cost.adapter_load_ms(lora_rank), 1e-9)),
    )


def _acceptance(live: LiveStress, acceptance: Mapping[str, Rates]) -> list[dict[str, Any]]:
    """Return tokens per draft step at the standing depth: live, over all its trials, and as simulated."""
    depth = live.payload["engine"]["num_speculative_tokens"]
    found = []
    for adapter in live.payload["adapters"]:
        name = adapter["name"]
        counts = [
            trial["counts"][name]
            for trial in live.payload["trials"]
            if trial["policy"] == "always_standing_k" and name in trial["counts"]
        ]
        drafts = sum(item.num_drafts for item in counts)
        accepted = sum(item.num_accepted_tokens for item in counts)
        found.append(
            {
                "adapter": name,
                "num_drafts": drafts,
                "live_acceptance_length": 1 + accepted / drafts if drafts else None,
                "simulated_acceptance_length": 1 + sum(acceptance[name][:depth]),
            }
        )
    return found
