"""The trials of a live run, before anything is started: which, in which order, with which requests and policy."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np

from lora_spec.errors import ConfigError
from lora_spec.provenance import sha256_of_json
from lora_spec.stress.live import Trial
from lora_spec.stress.live_policies import LivePolicyFile, Mix, StepMs, live_policy
from lora_spec.traffic.schedule import ScheduledRequest, schedule_requests

_START_S, _CHANGE_S, _TOKEN_S = 35.0, 2.0, 0.15
"""What a server's start, a change of policy and a token take on two cores, for the estimate alone."""


@dataclass(frozen=True)
class Place:
    """Where a trial stands: its scenario, its policy and its round."""

    pattern: str
    cache_mode: str
    request_rate_req_s: float
    policy: str
    seed: int

    @property
    def name(self) -> str:
        """Return a name that is a file's too."""
        return f"{self.pattern}-{self.cache_mode}-{self.request_rate_req_s:g}-{self.policy}-{self.seed}"


@dataclass(frozen=True)
class PlannedTrial:
    """A trial with its place, the policy that it runs under, and what the client does."""

    place: Place
    policy: LivePolicyFile
    trial: Trial


@dataclass(frozen=True)
class Served:
    """What is served, and what policies are made from.

    Parameters
    ----------
    adapters
        Names in traffic, sorted.
    lengths
        By adapter, measured E_0, E_1, ...
    fleet
        Payload of the fleet's ``policy.json``.
    candidate_depths
        Of ``gate.yaml``.
    inputs_sha256
        Of models, adapters, prompts, engine and code: trials of others are not taken over.
    """

    adapters: tuple[str, ...]
    lengths: Mapping[str, Sequence[float]]
    fleet: Mapping[str, Any]
    step_ms: StepMs
    candidate_depths: tuple[int, ...]
    max_num_seqs: int
    inputs_sha256: str


def places(live: Mapping[str, Any]) -> dict[str, list[Place]]:
    """Return the places by cache mode, in the order of the run.

    A cache mode is a server. On it all scenarios and policies of a seed make a round, in an order drawn anew.
    """
    found: dict[str, list[Place]] = {}
    modes = list(dict.fromkeys(scenario["cache_mode"] for scenario in live["scenarios"]))
    for index, mode in enumerate(modes):
        scenarios = [scenario for scenario in live["scenarios"] if scenario["cache_mode"] == mode]
        found[mode] = []
        for seed in live["seeds"]:
            of_round = [
                Place(s["pattern"], mode, s["request_rate_req_s"], policy, seed)
                for s in scenarios
                for policy in live["policies"]
            ]
            order = np.random.default_rng([live["order_seed"], index, seed]).permutation(len(of_round))
            found[mode] += [of_round[place] for place in order]
    return found


def slots(traffic: Mapping[str, Any], mode: str, num_adapters: int) -> int:
    """Return how many adapters a server of a cache mode holds; where slots are short, main memory is as well."""
    share = next(item["slot_share"] for item in traffic["cache_modes"] if item["name"] == mode)
    return max(1, ceil(share * num_adapters))


def live_traffic(traffic: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of ``traffic.yaml`` as live trials take them."""
    return {**traffic, **{key: traffic["live"][key] for key in ("duration_s", "warmup_s", "output_tokens")}}


def schedule_of(traffic: Mapping[str, Any], place: Place, adapters: Sequence[str]) -> tuple[ScheduledRequest, ...]:
    """Return the requests of a trial: the same for every policy of a round."""
    return schedule_requests(
        live_traffic(traffic), place.pattern, adapters=adapters, rate_req_s=place.request_rate_req_s, seed=place.seed
    )


def plan_trials(traffic: Mapping[str, Any], served: Served) -> dict[str, list[PlannedTrial]]:
    """Return all trials by cache mode, in the order of the run.

    Raises
    ------
    ConfigError
        As of :func:`live_policy` and :func:`schedule_requests`, or nothing of a trial would be counted.
    """
    return {
        mode: [
            _planned(traffic, place, served, num_slots=slots(traffic, mode, len(served.adapters))) for place in found
        ]
        for mode, found in places(traffic["live"]).items()
    }


def _planned(traffic: Mapping[str, Any], place: Place, served: Served, *, num_slots: int) -> PlannedTrial:
    mix = Mix(
        lengths=[served.lengths[adapter] for adapter in served.adapters],
        request_rate_req_s=place.request_rate_req_s,
        output_tokens=traffic["live"]["output_tokens"],
        max_batch_size=served.max_num_seqs,
    )
    policy = live_policy(
        place.policy,
        served.fleet,
        adapters=served.adapters,
        mix=mix,
        step_ms=served.step_ms,
        depths=served.candidate_depths,
    )
    requests = schedule_of(traffic, place, served.adapters)
    if not any(request.arrival_s >= traffic["live"]["warmup_s"] for request in requests):
        raise ConfigError(
            f"traffic.yaml: live: no request of {place.name} arrives after the warm-up; raise the rate or duration_s"
        )
    inputs = {
        "policy": policy.sha256,
        "requests": [asdict(request) for request in requests],
        "drain_s": traffic["live"]["drain_s"],
        "num_slots": num_slots,
        "served": served.inputs_sha256,
    }
    return PlannedTrial(place, policy, Trial(place.name, policy.data, requests, sha256_of_json(inputs)))


def expected_s(traffic: Mapping[str, Any]) -> float:
    """Return about how long the run takes, s."""
    live, by_mode = traffic["live"], places(traffic["live"])
    num_trials = sum(map(len, by_mode.values()))
    tail_s = live["output_tokens"] * _TOKEN_S
    return len(by_mode) * _START_S + num_trials * (live["duration_s"] + _CHANGE_S + tail_s)
