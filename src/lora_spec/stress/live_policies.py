"""The policies of a live run as policy files: the same engine, told other depths."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lora_spec.errors import ConfigError
from lora_spec.policy.policy_file import SCHEMA_VERSION
from lora_spec.provenance import sha256_of_json
from lora_spec.results import json_bytes

StepMs = Callable[[int, float], float]
"""Length of a step at a depth and a batch size, ms."""


@dataclass(frozen=True)
class Mix:
    """What a scenario asks of the engine, all adapters alike often.

    Parameters
    ----------
    lengths
        E_0, E_1, ... of every adapter in traffic, tokens per step.
    max_batch_size
        Most requests that run at once.
    """

    lengths: Sequence[Sequence[float]]
    request_rate_req_s: float
    output_tokens: int
    max_batch_size: int


@dataclass(frozen=True)
class LivePolicyFile:
    """A policy in one scenario: its file's payload, and what of it was chosen, in a few words."""

    label: str
    payload: Mapping[str, Any]

    @property
    def data(self) -> bytes:
        """Return the file's bytes."""
        return json_bytes({"kind": "policy", "schema_version": SCHEMA_VERSION, "payload": dict(self.payload)})

    @property
    def sha256(self) -> str:
        """Return what tells it from others."""
        return sha256_of_json(dict(self.payload))


def live_policy(
    name: str, fleet: Mapping[str, Any], *, adapters: Sequence[str], mix: Mix, step_ms: StepMs, depths: Sequence[int]
) -> LivePolicyFile:
    """Return a policy of ``traffic.yaml``'s ``live`` block.

    Parameters
    ----------
    fleet
        Payload of the fleet's ``policy.json``: its loads are those of every policy, and its adapters ours.
    adapters
        Adapters in traffic: an engine refuses a policy that names others.
    depths
        Candidates of the best static depth, all up to the fleet's maximum.

    Raises
    ------
    ConfigError
        There is no such policy, or the fleet's says nothing of an adapter, or has no live rule where one is asked for.
    """
    standing = fleet["max_num_speculative_tokens"]
    if name == "always_off":
        return _static(fleet, 0)
    if name == "always_standing_k":
        return _static(fleet, standing)
    if name == "best_static_k":
        return _static(fleet, best_static_depth(mix, step_ms, [depth for depth in depths if depth <= standing]))
    if name not in ("policy_file", "policy_file_live"):
        raise ConfigError(f"policy {name!r} is no file that an engine can be given; correct traffic.yaml: live")
    if missing := sorted(set(adapters) - set(fleet["adapters"])):
        raise ConfigError(f"policy.json says nothing of adapter {missing[0]!r}; make it from the verdicts of this pool")
    live = fleet["live"] if name == "policy_file_live" else None
    if name == "policy_file_live" and live is None:
        raise ConfigError("policy.json has no live rule; make one with it, or run policy_file in place of this")
    served = {adapter: fleet["adapters"][adapter] for adapter in adapters}
    return LivePolicyFile("file and live rule" if live else "file", {**fleet, "adapters": served, "live": live})


def _static(fleet: Mapping[str, Any], depth: int) -> LivePolicyFile:
    same = {"default": [depth] * len(fleet["loads"]), "adapters": {}, "live": None}
    return LivePolicyFile(f"K={depth}", {**fleet, **same})


def best_static_depth(mix: Mix, step_ms: StepMs, depths: Sequence[int]) -> int:
    """Return the one depth that serves the mix in the least time per token, the shallowest of equals.

    At depth K and batch B a token of the mix takes W = T_K(B) mean(1 / E_K). By Little's law requests of L tokens that
    come at a rate r fill B = r L W: the batch is where the two meet. Prompts are left out, which all depths share. A
    depth whose batch would outgrow the engine is taken only where all do, and then by its throughput.
    """
    return min(depths, key=lambda depth: _time_per_token(mix, step_ms, depth))


def _time_per_token(mix: Mix, step_ms: StepMs, depth: int) -> tuple[bool, float]:
    """Return whether the engine is saturated, and the time per token at the batch that results, s."""
    steps_per_token = float(np.mean([1 / lengths[depth] for lengths in mix.lengths]))

    def per_token_s(batch: float) -> float:
        return 1e-3 * step_ms(depth, batch) * steps_per_token

    # From below the rising batches go to the smallest at which both hold.
    batch = 1.0
    for _ in range(200):
        wanted = mix.request_rate_req_s * mix.output_tokens * per_token_s(batch)
        if wanted >= mix.max_batch_size:
            return True, per_token_s(mix.max_batch_size) / mix.max_batch_size
        if abs(max(1.0, wanted) - batch) < 1e-6:
            break
        batch = max(1.0, wanted)
    return False, per_token_s(batch)
