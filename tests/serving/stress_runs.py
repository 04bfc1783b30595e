"""Small live runs on the tiny pair, for the tests of the stress room on real vLLM."""

from pathlib import Path

from lora_spec.engines.server_options import ServerOptions
from lora_spec.stress.live_campaign import LiveCampaign
from lora_spec.stress.live_plan import Served, plan_trials
from lora_spec.stress.live_prompts import OwnTraffic

ADAPTERS = ("strong", "stronger", "weak")
FLEET = {
    "max_num_speculative_tokens": 3,
    "loads": [{"max_batch_size": 8, "step_time_ratios": [1.0, 1.1, 1.2, 1.3]}],
    "default": [3],
    "adapters": {"strong": [1], "stronger": [0], "weak": [3], "elsewhere": [2]},
    "live": None,
}


def traffic(**live):
    """Return the values of a traffic.yaml: two policies, two trials each, with slots for one adapter of three."""
    scenario = {"pattern": "uniform", "cache_mode": "limited", "request_rate_req_s": 4.0}
    return {
        "patterns": [{"kind": "uniform", "name": "uniform"}],
        "cache_modes": [{"name": "limited", "slot_share": 0.3}, {"name": "warm", "slot_share": 1.0}],
        "prompt_lengths": [{"num_prompt_tokens": 8, "share": 0.5}, {"num_prompt_tokens": 24, "share": 0.5}],
        "service_level": {"max_ttft_ms": 5000.0, "max_tpot_ms": 1000.0},
        "live": {
            "scenarios": [scenario],
            "policies": ["best_static_k", "policy_file"],
            "seeds": [0, 1],
            "duration_s": 3.0,
            "warmup_s": 0.5,
            "drain_s": 30.0,
            "output_tokens": 12,
            "max_other_cores": 99.0,
            "max_wait_s": 60.0,
            "order_seed": 0,
            **live,
        },
    }


def planned(settings):
    """Return the trials of these settings by cache mode."""
    lengths = {"strong": (1.0, 1.4, 1.5, 1.5), "stronger": (1.0, 1.05, 1.05, 1.05), "weak": (1.0, 1.8, 2.4, 2.8)}
    return plan_trials(
        settings,
        Served(
            adapters=ADAPTERS,
            lengths=lengths,
            fleet=FLEET,
            step_ms=lambda depth, batch: 20.0 + 2.0 * depth + 0.5 * batch,
            candidate_depths=(0, 1, 2, 3),
            max_num_seqs=8,
            inputs_sha256="tiny",
        ),
    )


def server_options(pair, adapters, **changes):
    """Return options of a server of the tiny pair with our scheduler."""
    options = {
        "target": Path(pair[0]),
        "drafter": Path(pair[1]),
        "num_speculative_tokens": 3,
        "adapters": {name: Path(adapters[name].path) for name in ADAPTERS},
        "dtype": "float32",
        "max_model_len": 160,
        "max_num_seqs": 8,
        "max_loras": 3,
        "max_lora_rank": 8,
    }
    return ServerOptions(**options | changes)


def own_traffic(prompts):
    """Return prompts for every adapter."""
    return OwnTraffic({name: [prompt.token_ids for prompt in prompts] for name in ADAPTERS})


def campaign(pair, adapters, prompts, state_dir, **live):
    """Return a live run."""
    settings = traffic(**live)
    return LiveCampaign(
        traffic=settings,
        planned=planned(settings),
        options=server_options(pair, adapters),
        prompt_of=own_traffic(prompts),
        state_dir=state_dir,
    )
