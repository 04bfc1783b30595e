"""The full grid of policies, traffic and cache modes in the simulator, from what a tier has measured."""

from collections.abc import Mapping
from typing import Any

from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.policy.policy_file import Policy
from lora_spec.provenance import sha256_of_json
from lora_spec.stress.grid import Grid
from lora_spec.stress.live_simulation import simulated_server
from lora_spec.stress.policies.base import Rates, Situation
from lora_spec.stress.policies.registry import POLICIES
from lora_spec.stress.simulator.fleet import Fleet
from lora_spec.stress.simulator.settings import SimulatedAdapter

_NEEDS_PREDICTION = ("predictor_gated_disablement", "predictor_gated_shortened_depth")
_ONLINE_OPTIONS = ("window_drafts", "min_acceptance_rate", "exploration_share")


def study_grid(
    settings: Mapping[str, Any],
    *,
    cost: StepCostModel,
    acceptance: Mapping[str, Rates],
    expected: Mapping[str, Rates],
    policy: Policy,
) -> Grid:
    """Return the grid of a tier.

    Parameters
    ----------
    settings
        ``traffic``, ``baselines`` and ``engine`` as in the config files, and ``ranks`` by adapter.
    acceptance, expected
        Measured and held-out predicted a_1, a_2, ... by adapter; without any prediction the policies that need one
        are left out.
    """
    traffic, ranks = settings["traffic"], settings["ranks"]
    adapters = tuple(SimulatedAdapter(name, ranks[name], rates) for name, rates in acceptance.items())
    even: dict[str | None, float] = {name: 1 / len(acceptance) for name in acceptance}
    situation = Situation(
        acceptance=dict(acceptance),
        shares=even,
        loads=policy.loads,
        cost=cost,
        max_depth=policy.max_num_speculative_tokens,
        standing_depth=policy.max_num_speculative_tokens,
        expected=dict(expected) or None,
        policy=policy,
        options=_options(settings["baselines"]),
    )
    server = simulated_server(
        cost,
        max_num_seqs=settings["engine"]["max_num_seqs"],
        max_num_batched_tokens=traffic["live"]["max_num_batched_tokens"],
        num_slots=len(adapters),  # set anew by the cache mode of each cell
        lora_rank=max(ranks[name] for name in acceptance),
    )
    inputs = {"settings": dict(settings), "acceptance": dict(acceptance), "expected": dict(expected)}
    behind = {**inputs, "cost": cost.to_dict(), "policy": _plain(policy)}
    return Grid(
        traffic=traffic,
        fleet=Fleet(server, cost, adapters),
        situation=situation,
        policies=_policies(situation),
        inputs_sha256=sha256_of_json(behind),
    )


def _policies(situation: Situation) -> tuple[str, ...]:
    left_out = set() if situation.expected else set(_NEEDS_PREDICTION)
    if situation.policy is None or situation.policy.live is None:
        left_out.add("policy_file_live")
    return tuple(name for name in POLICIES if name not in left_out)


def _options(baselines: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    online = [item for item in baselines["baselines"] if item["kind"] == "online"]
    return {item["name"]: {key: item[key] for key in _ONLINE_OPTIONS} for item in online}


def _plain(policy: Policy) -> dict[str, Any]:
    return {
        "loads": [[load.max_batch_size, *load.step_time_ratios] for load in policy.loads],
        "default": policy.default,
        "adapters": dict(policy.adapters),
        "live": None if policy.live is None else vars(policy.live),
    }
