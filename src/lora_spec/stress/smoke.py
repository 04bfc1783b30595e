"""Made-up adapters, costs and traffic, to try the simulator's path without an engine. No evidence of anything."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lora_spec.policy.policy_file import LiveRule, Policy
from lora_spec.provenance import sha256_of_json
from lora_spec.stress.grid import Grid
from lora_spec.stress.policies.base import Rates, Situation
from lora_spec.stress.policies.loads import loads_of
from lora_spec.stress.policies.mix_depths import best_mix_depths
from lora_spec.stress.policies.registry import POLICIES
from lora_spec.stress.simulator.fleet import Fleet
from lora_spec.stress.simulator.settings import ServerSettings, SimulatedAdapter

_NUM_ADAPTERS, _MAX_DEPTH, _STANDING_DEPTH = 12, 4, 3
_ONLINE = {"window_drafts": 64, "min_acceptance_rate": 0.2, "exploration_share": 0.05}
TRAFFIC: dict[str, Any] = {
    "patterns": [
        {"kind": "uniform", "name": "uniform"},
        {"kind": "zipf", "name": "zipf", "exponent": 1.0},
        {"kind": "bursty", "name": "bursty", "burst_factor": 4.0, "mean_burst_s": 5.0, "burst_share": 0.2},
    ],
    "cache_modes": [{"name": "warm", "slot_share": 1.0}, {"name": "limited", "slot_share": 0.25}],
    "prompt_lengths": [{"num_prompt_tokens": 32, "share": 0.7}, {"num_prompt_tokens": 256, "share": 0.3}],
    "output_tokens": 64,
    "request_rates_req_s": [1.0, 5.0],
    "duration_s": 18.0,
    "warmup_s": 3.0,
    "service_level": {"max_ttft_ms": 500.0, "max_tpot_ms": 40.0},
    "seeds": [0, 1, 2],
}


@dataclass(frozen=True)
class MadeUpStepCost:
    """Prices of the parts of a step, ms; the numbers are nobody's."""

    verify_ms: float = 12.0
    per_request_ms: float = 0.4
    draft_pass_ms: float = 2.0
    per_verified_ms: float = 0.6
    per_prefill_ms: float = 0.05
    per_context_ms: float = 2e-4
    load_per_rank_ms: float = 3.0

    def step_ms(self, depths: Any, *, num_prefill_tokens: int, num_context_tokens: int) -> float:
        """Return the length of a step."""
        return (
            self.verify_ms
            + self.per_request_ms * len(depths)
            + self.draft_pass_ms * max(depths, default=0)
            + self.per_verified_ms * sum(depths)
            + self.per_prefill_ms * num_prefill_tokens
            + self.per_context_ms * num_context_tokens
        )

    def adapter_load_ms(self, lora_rank: int) -> float:
        """Return what a load takes."""
        return self.load_per_rank_ms * lora_rank


def smoke_grid(*, seed: int) -> Grid:
    """Return a grid of seconds with every policy; predicted acceptance is the true one with noise."""
    rng = np.random.default_rng(seed)
    names = [f"smoke-{index:02d}" for index in range(_NUM_ADAPTERS)]
    strengths = {name: rng.uniform(-2, 2) for name in names}
    acceptance: dict[str | None, Rates] = {name: _rates(strengths[name]) for name in names}
    expected: dict[str | None, Rates] = {name: _rates(strengths[name] + 0.5 * rng.standard_normal()) for name in names}
    cost = MadeUpStepCost()
    loads = loads_of(cost, (2, 8, 16), max_depth=_MAX_DEPTH, num_context_tokens=128)
    even: dict[str | None, float] = dict.fromkeys(expected, 1 / _NUM_ADAPTERS)
    depths = best_mix_depths(expected, even, loads, cost, max_depth=_MAX_DEPTH)
    standing = (_STANDING_DEPTH,) * len(loads)
    by_adapter = {name: found for name, found in depths.items() if name is not None}
    policy = Policy(_MAX_DEPTH, loads, standing, by_adapter, LiveRule(64, 0.05, 5.0, 20.0, 32, 2.0))
    situation = Situation(
        acceptance=acceptance,
        shares=even,
        loads=loads,
        cost=cost,
        max_depth=_MAX_DEPTH,
        standing_depth=_STANDING_DEPTH,
        expected=expected,
        policy=policy,
        options={"rolling_acceptance_gate": _ONLINE, "online_bandit": _ONLINE},
    )
    server = ServerSettings(
        max_num_seqs=16, max_num_batched_tokens=512, max_loras=1, max_cpu_loras=1, cached_load_share=0.1
    )
    adapters = tuple(SimulatedAdapter(name, 8, rates) for name, rates in acceptance.items())
    return Grid(
        traffic=TRAFFIC,
        fleet=Fleet(server, cost, adapters),
        situation=situation,
        policies=tuple(POLICIES),
        inputs_sha256=sha256_of_json({"seed": seed, "adapters": list(acceptance.values())}),
    )


def _rates(strength: float) -> Rates:
    """Return a_1 to a_K whose conditional odds fall with position."""
    conditional = 1 / (1 + np.exp(0.2 * np.arange(_MAX_DEPTH) - strength))
    return tuple(float(rate) for rate in np.cumprod(conditional))
