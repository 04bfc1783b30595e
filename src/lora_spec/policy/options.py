"""What the scheduler is told: ``--additional-config '{"lora_spec": {...}}'`` of vLLM, or an environment variable.

| key | meaning |
|---|---|
| ``policy`` | path of the policy file; ``LORA_SPEC_POLICY`` in the environment stands in where it is missing |
| ``adapters`` | names that this engine serves: a policy that names another one is refused (without it, none is) |
| ``poll_s`` | seconds between two looks at the file, 1 |
| ``metrics_port`` | loopback port for the per-adapter counters, where ``PROMETHEUS_MULTIPROC_DIR`` is not set |
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLICY_VARIABLE = "LORA_SPEC_POLICY"
_MOST_POLL_S = 3600.0
_MOST_PORT = 65535


@dataclass(frozen=True)
class Options:
    """What the scheduler was told; None is what it was not."""

    policy: Path | None = None
    adapters: frozenset[str] | None = None
    poll_s: float = 1.0
    metrics_port: int | None = None


def read_options(additional_config: Any, environment: Mapping[str, str]) -> Options:
    """Return the options in vLLM's additional configuration.

    Raises
    ------
    ValueError
        A key is unknown or a value makes no sense: the engine does not start.
    """
    found = additional_config.get("lora_spec", {}) if isinstance(additional_config, Mapping) else {}
    if not isinstance(found, Mapping) or (unknown := set(found) - set(Options.__dataclass_fields__)):
        wrong = f"unknown {sorted(unknown)}" if isinstance(found, Mapping) else repr(found)
        raise ValueError(
            f"additional_config lora_spec: {wrong}; an object with {', '.join(Options.__dataclass_fields__)} is needed"
        )
    policy = found.get("policy", environment.get(POLICY_VARIABLE))
    return Options(
        policy=None if policy is None else _path(policy),
        adapters=None if found.get("adapters") is None else _names(found["adapters"]),
        poll_s=_number(found.get("poll_s", 1.0), "poll_s", most=_MOST_POLL_S),
        metrics_port=None if found.get("metrics_port") is None else _port(found["metrics_port"]),
    )


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"additional_config lora_spec: {key} is {value!r}, needed is a text")
    return value


def _path(value: Any) -> Path:
    text = _text(value, "policy")
    try:
        is_possible = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ValueError(f"additional_config lora_spec: policy is {text!r}, which no file can be called")
    return Path(text)


def _names(value: Any) -> frozenset[str]:
    if not isinstance(value, list):
        raise ValueError(f"additional_config lora_spec: adapters is {value!r}, needed is a list of names")
    return frozenset(_text(name, "adapters") for name in value)


def _number(value: Any, key: str, *, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"additional_config lora_spec: {key} is {value!r}, needed is a number from 0 to {most:g}")
    return float(value)


def _port(value: Any) -> int:
    port = _number(value, "metrics_port", most=_MOST_PORT)
    if not port.is_integer():
        raise ValueError(f"additional_config lora_spec: metrics_port is {value!r}, needed is a whole number")
    return int(port)
