"""Step costs, adapters and schedules whose answers are known, for the tests of the stress room."""

from dataclasses import dataclass

import numpy as np

from lora_spec.policy.policy_file import Load
from lora_spec.stress.policies.base import Chooser, Situation
from lora_spec.stress.simulator.settings import ServerSettings, SimulatedAdapter
from lora_spec.traffic.schedule import ScheduledRequest

SERVER = ServerSettings(
    max_num_seqs=8, max_num_batched_tokens=256, max_loras=4, max_cpu_loras=8, cached_load_share=0.1, draft_slots=0
)


@dataclass(frozen=True)
class PlainCost:
    """Every part of a step as a price of its own, ms."""

    step: float = 0.0
    per_request: float = 0.0
    draft: float = 0.0
    per_verified: float = 0.0
    per_prefill: float = 0.0
    per_context: float = 0.0
    load: float = 0.0

    def step_ms(self, depths, *, num_prefill_tokens, num_context_tokens):
        return (
            self.step
            + self.per_request * len(depths)
            + self.draft * max(depths, default=0)
            + self.per_verified * sum(depths)
            + self.per_prefill * num_prefill_tokens
            + self.per_context * num_context_tokens
        )

    def adapter_load_ms(self, lora_rank):
        return self.load * lora_rank

    def times(self, factor):
        return PlainCost(**{key: factor * value for key, value in vars(self).items()})


class ByAdapter(Chooser):
    """The same depths for ever."""

    def __init__(self, depths=None, default=0, is_learning=False):
        self._depths = depths or {}
        self._default = default
        self.is_learning = is_learning

    def begin_step(self, batch_size, now_s):
        return 0

    def depth(self, adapter):
        return self._depths.get(adapter, self._default)


def adapters(rates, rank=8):
    """Return adapters by name."""
    return tuple(SimulatedAdapter(name, rank, tuple(found)) for name, found in rates.items())


def requests(arrivals, *, adapter=None, prompt=1, output=1):
    """Return requests at these times; adapters may be one, or one each."""
    names = adapter if isinstance(adapter, list) else [adapter] * len(arrivals)
    return tuple(
        ScheduledRequest(i, float(time), name, prompt, output, 0)
        for i, (time, name) in enumerate(zip(arrivals, names, strict=True))
    )


def poisson(rate, num, seed=0):
    """Return arrival times of a Poisson process."""
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, size=num))


RATES = {"good": (0.9, 0.8, 0.7), "fair": (0.6, 0.3, 0.15), "bad": (0.1, 0.02, 0.0), None: (0.8, 0.6, 0.5)}
COST = PlainCost(step=20, per_request=0.5, draft=4, per_verified=1, per_prefill=0.2, per_context=0.001, load=2)
LIVE = {
    "window_drafts": 32,
    "hysteresis": 0.05,
    "min_dwell_s": 5.0,
    "probe_interval_s": 20.0,
    "probe_drafts": 16,
    "num_standard_errors": 2.0,
}


def loads(cost=COST, sizes=(2, 8), max_depth=3):
    """Return loads with the step-time ratios of a cost."""
    times = [
        [cost.step_ms([k] * b, num_prefill_tokens=0, num_context_tokens=64 * b) for k in range(max_depth + 1)]
        for b in sizes
    ]
    return tuple(Load(b, tuple(t / row[0] for t in row)) for b, row in zip(sizes, times, strict=True))


def situation(**changes):
    """Return a situation in which every policy can be made."""
    from lora_spec.policy.policy_file import LiveRule, Policy

    found = loads()
    policy = Policy(3, found, (3, 3), {"bad": (0, 0), "fair": (2, 1)}, LiveRule(**LIVE))
    options = {"window_drafts": 32, "min_acceptance_rate": 0.2, "exploration_share": 0.1}
    values = {
        "acceptance": RATES,
        "shares": dict.fromkeys(RATES, 0.25),
        "loads": found,
        "cost": COST,
        "max_depth": 3,
        "standing_depth": 3,
        "expected": RATES,
        "policy": policy,
        "options": {"rolling_acceptance_gate": options, "online_bandit": options},
    }
    return Situation(**values | changes)
