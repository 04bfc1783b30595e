"""A live run whose numbers come from the simulator, so that what is computed from it is known beforehand."""

from functools import partial

import numpy as np
from stress_cases import LIVE as LIVE_RULE

from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.policy.policy_file import parse_policy
from lora_spec.stress.live import TrialRecord
from lora_spec.stress.live_plan import Served, plan_trials, slots
from lora_spec.stress.live_simulation import simulated_server
from lora_spec.stress.live_table import write_live
from lora_spec.stress.policies.controlled import ControlledChooser
from lora_spec.stress.simulator.fleet import Fleet, simulate
from lora_spec.stress.simulator.settings import SimulatedAdapter

RATES = {"good": (0.8, 0.6, 0.4), "fair": (0.5, 0.2, 0.1), "bad": (0.1, 0.02, 0.0)}
LENGTHS = {name: tuple(1 + np.cumsum((0.0, *rates))) for name, rates in RATES.items()}
PARTS = (12.0, 0.6, 0.001, 1.0, 2.0, 0.1, 1.5, 0.05, 1.0, 0.05, 0.01, 3.0, 0.2, 0.05)
COST = StepCostModel(
    parts_ms=np.array(PARTS),
    part_draws_ms=np.tile(PARTS, (3, 1)),
    loads_ms=np.array([20.0, 1.0, 4.0, 0.2]),
    load_draws_ms=np.tile([20.0, 1.0, 4.0, 0.2], (3, 1)),
    context={},
)
FLEET = {
    "max_num_speculative_tokens": 3,
    "loads": [
        {"max_batch_size": 2, "step_time_ratios": [1.0, 1.2, 1.4, 1.6]},
        {"max_batch_size": 8, "step_time_ratios": [1.0, 1.3, 1.7, 2.1]},
    ],
    "default": [3, 3],
    "adapters": {"good": [3, 3], "fair": [2, 1], "bad": [0, 0], "elsewhere": [1, 1]},
    "live": LIVE_RULE,
}
TRAFFIC = {
    "patterns": [
        {"kind": "uniform", "name": "uniform"},
        {"kind": "zipf", "name": "zipf", "exponent": 1.0},
        {"kind": "bursty", "name": "bursty", "burst_factor": 4.0, "mean_burst_s": 5.0, "burst_share": 0.2},
    ],
    "cache_modes": [{"name": "warm", "slot_share": 1.0}, {"name": "limited", "slot_share": 0.25}],
    "prompt_lengths": [{"num_prompt_tokens": 16, "share": 0.5}, {"num_prompt_tokens": 48, "share": 0.5}],
    "service_level": {"max_ttft_ms": 2000.0, "max_tpot_ms": 100.0},
    "live": {
        "scenarios": [
            {"pattern": "uniform", "cache_mode": "warm", "request_rate_req_s": 2.0},
            {"pattern": "zipf", "cache_mode": "limited", "request_rate_req_s": 1.0},
            {"pattern": "bursty", "cache_mode": "warm", "request_rate_req_s": 1.5},
        ],
        "policies": ["always_off", "always_standing_k", "best_static_k", "policy_file_live"],
        "seeds": [0, 1, 2],
        "duration_s": 40.0,
        "warmup_s": 4.0,
        "drain_s": 60.0,
        "output_tokens": 24,
        "order_seed": 0,
    },
}


def served(**changes):
    """Return what is served."""
    values = {
        "adapters": tuple(sorted(RATES)),
        "lengths": LENGTHS,
        "fleet": FLEET,
        "step_ms": lambda depth, batch: COST.step_ms(
            [depth] * round(batch), num_prefill_tokens=0, num_context_tokens=round(64 * batch)
        ),
        "candidate_depths": (0, 1, 2, 3, 4),
        "max_num_seqs": 8,
        "inputs_sha256": "made up",
    }
    return Served(**values | changes)


def planned(**changes):
    """Return the trials by cache mode."""
    return plan_trials(TRAFFIC, served(**changes))


def record_of(item, *, slowness=1.0, seed=None):
    """Return a trial as it went in the simulator; ``slowness`` stretches all parts of a step."""
    parts = slowness * np.array(PARTS)
    cost = StepCostModel(parts, parts[None], COST.loads_ms, COST.load_draws_ms, {})
    num_slots = slots(TRAFFIC, item.place.cache_mode, len(RATES))
    server = simulated_server(cost, max_num_seqs=8, max_num_batched_tokens=256, num_slots=num_slots, lora_rank=8)
    fleet = Fleet(server, cost, tuple(SimulatedAdapter(name, 8, rates) for name, rates in sorted(RATES.items())))
    make = partial(ControlledChooser, parse_policy(item.policy.data, max_depth=3), max_depth=3)
    live = TRAFFIC["live"]
    run = simulate(
        item.trial.requests,
        fleet,
        make,
        seed=item.place.seed if seed is None else seed,
        warmup_s=live["warmup_s"],
        drain_s=live["drain_s"],
    )
    return TrialRecord(
        name=item.trial.name,
        inputs_sha256=item.trial.inputs_sha256,
        records=run.records,
        counts={
            name: {
                "num_drafts": counts.num_drafts,
                "num_draft_tokens": counts.num_draft_tokens,
                "num_accepted_tokens": counts.num_accepted_tokens,
                "num_accepted_tokens_per_pos": tuple(counts.num_accepted_tokens_per_pos),
            }
            for name, counts in run.counts.items()
            if counts.num_drafts
        },
        num_changes={},
        num_adapter_loads={"load": run.num_adapter_loads, "place": run.num_cached_adapter_loads},
        wall_s=60.0,
        generator_cores=0.1,
        server_cores=1.8,
        other_cores=0.05,
        load_before=1.0,
        load_after=1.5,
        failure=None,
    )


def write_run(path, **how):
    """Write a whole live run and return its trials."""
    done = [(item, record_of(item, **how)) for of_mode in planned().values() for item in of_mode]
    live = TRAFFIC["live"]
    payload = {
        "setup": "made up",
        "engine": {"max_num_seqs": 8, "max_num_batched_tokens": 256, "num_speculative_tokens": 3},
        "adapters": [
            {"name": name, "domain": name, "action": "red", "lora_rank": 8, "adapter_sha256": "0"}
            for name in sorted(RATES)
        ],
        "traffic": {
            **{key: live[key] for key in ("duration_s", "warmup_s", "drain_s", "output_tokens")},
            "service_level": TRAFFIC["service_level"],
        },
        "slots": {mode: slots(TRAFFIC, mode, len(RATES)) for mode in ("warm", "limited")},
    }
    write_live(path, done, payload=payload, tier="made-up", provenance={})
    return done
