"""``policy.json``: what it may say, and reading it while it changes. Standard library only: it is read inside vLLM.

The file is an envelope whose ``payload`` holds the depths of all adapters at every load that was weighed::

    {"kind": "policy", "schema_version": "1", ..., "payload": {
        "max_num_speculative_tokens": 3,
        "loads": [{"max_batch_size": 2, "step_time_ratios": [1.0, 1.1, 1.25, 1.4]}, ...],
        "default": [3, 1],
        "adapters": {"sql": [1, 0], "json_extract": 2},
        "live": {"window_drafts": 256, "hysteresis": 0.05, "min_dwell_s": 30.0, "probe_interval_s": 120.0,
                 "probe_drafts": 64, "num_standard_errors": 2.0}}}

A depth is a number of drafted tokens per step: one for all loads, or one for each. ``step_time_ratios`` are T_K(B) /
T_0(B) for K = 0 up to the maximum, what a step with K drafts costs beside one with none. Beyond the last load its
depths hold. ``default`` is for requests without an adapter and for adapters without an entry.
"""

import json
import os
import reprlib
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA_VERSION = "1"
MAX_BYTES = 8 * 2**20
"""A hundred thousand adapters. The engine waits while it reads, up to a quarter of a second per MiB."""
MAX_DEPTH = 64
_MOST_RATIO = 1e6
# What a file holds may be long, and a refusal is a line of the engine's log.
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 80


class PolicyError(ValueError):
    """A policy that may not come into force; the message says what is wrong and what to do."""


@dataclass(frozen=True)
class Load:
    """Batches up to ``max_batch_size`` requests; ``step_time_ratios`` holds T_K / T_0 for K = 0, 1, ..."""

    max_batch_size: int
    step_time_ratios: tuple[float, ...]


@dataclass(frozen=True)
class LiveRule:
    """When live acceptance overrules the file.

    Parameters
    ----------
    window_drafts
        Draft steps after which an adapter is judged, and judged anew.
    hysteresis
        Share of goodput that a demotion must gain, and that a promotion must gain beside staying.
    min_dwell_s
        Seconds that an adapter stays as it is after a change.
    probe_interval_s
        Seconds from a demotion to the first probe of the depth in the file; doubled by every probe that fails.
    probe_drafts
        Draft steps of a probe.
    num_standard_errors
        How far from the mean tokens per step its true value is thought to lie at most.
    """

    window_drafts: int
    hysteresis: float
    min_dwell_s: float
    probe_interval_s: float
    probe_drafts: int
    num_standard_errors: float


@dataclass(frozen=True)
class Policy:
    """A policy that holds together; depths are tuples with one entry per load."""

    max_num_speculative_tokens: int
    loads: tuple[Load, ...]
    default: tuple[int, ...]
    adapters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    live: LiveRule | None = None

    def load_index(self, batch_size: int) -> int:
        """Return the load that a batch belongs to, the last one where it is larger than all."""
        return load_index(self.loads, batch_size)

    def depths_of(self, adapter: str | None) -> tuple[int, ...]:
        """Return an adapter's depth at every load; None stands for the base model."""
        return self.default if adapter is None else self.adapters.get(adapter, self.default)


def load_index(loads: Sequence[Load], batch_size: int) -> int:
    """Return the first load that holds a batch, the last one where none does."""
    return next((i for i, load in enumerate(loads) if batch_size <= load.max_batch_size), len(loads) - 1)


def parse_policy(data: bytes, *, max_depth: int, known_adapters: Collection[str] | None = None) -> Policy:
    """Return the policy in a file's bytes.

    Parameters
    ----------
    max_depth
        Drafted tokens per step that the engine was started for.
    known_adapters
        Names that the engine serves; None where nobody told.

    Raises
    ------
    PolicyError
        It is not JSON, not whole, deeper than the engine, or names an adapter that the engine does not serve.
    """
    payload = _payload(data)
    _check_keys(payload, needed=("max_num_speculative_tokens", "loads", "default", "adapters"), optional=("live",))
    deepest = _whole(payload["max_num_speculative_tokens"], "max_num_speculative_tokens", least=0)
    if deepest > max_depth:
        raise PolicyError(
            f"it is for engines with num_speculative_tokens {deepest}, this one was started with {max_depth}: start it "
            "with more, or make the policy for this depth"
        )
    loads = _loads(payload["loads"], deepest)
    adapters = _object(payload["adapters"], "adapters")
    if known_adapters is not None and (strangers := sorted(set(adapters) - set(known_adapters))):
        raise PolicyError(
            f"it names adapter {_SHOWN.repr(strangers[0])}, which this engine was not started for: start it with "
            "this one among its adapters, or leave it out of the policy"
        )
    return Policy(
        max_num_speculative_tokens=deepest,
        loads=loads,
        default=_depths(payload["default"], "default", len(loads), deepest),
        adapters={n: _depths(found, f"adapter {_SHOWN.repr(n)}", len(loads), deepest) for n, found in adapters.items()},
        live=None if payload.get("live") is None else _live(payload["live"]),
    )


def read_policy_bytes(path: Path) -> bytes:
    """Return a policy file's bytes; a pipe or a device is refused before it can block.

    Raises
    ------
    PolicyError
        It cannot be read, is no regular file, or is too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                raise PolicyError(f"{path} is no regular file of at most {MAX_BYTES} bytes")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as err:  # a PolicyError is a ValueError, too
        if isinstance(err, PolicyError):
            raise
        raise PolicyError(f"{path} cannot be read ({getattr(err, 'strerror', None) or err})") from err


def _payload(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise PolicyError(f"it holds more than {MAX_BYTES} bytes: leave out adapters at the default depth")
    try:
        envelope = json.loads(data.decode("utf-8"), object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as err:
        raise PolicyError(f"it is no whole JSON document ({err})") from err
    envelope = _object(envelope, "the document")
    if envelope.get("kind") != "policy" or envelope.get("schema_version") != SCHEMA_VERSION:
        raise PolicyError(
            f"it is of kind {_SHOWN.repr(envelope.get('kind'))}, version "
            f"{_SHOWN.repr(envelope.get('schema_version'))}; a policy of version {SCHEMA_VERSION!r} is needed: make it "
            "with lora-spec policy"
        )
    return _object(envelope.get("payload"), "payload")


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PolicyError(f"{where} is no object")
    return value


def _check_keys(found: Mapping[str, Any], *, needed: Sequence[str], optional: Sequence[str] = ()) -> None:
    missing = [key for key in needed if key not in found]
    unknown = [key for key in found if key not in (*needed, *optional)]
    if missing or unknown:
        words = [f"lacks {', '.join(missing)}"] if missing else []
        words += [f"holds unknown {', '.join(map(_SHOWN.repr, unknown[:3]))}"] if unknown else []
        raise PolicyError(f"it {' and '.join(words)}")


def _whole(value: Any, where: str, *, least: int, most: int = MAX_DEPTH) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PolicyError(f"{where} is {_SHOWN.repr(value)}, needed is a whole number from {least} to {most}")
    return value


def _number(value: Any, where: str, *, least: float, most: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # no float() before: a whole number may be too large for one
        raise PolicyError(f"{where} is {_SHOWN.repr(value)}, needed is a number from {least:g} to {most:g}")
    return float(value)


def _loads(value: Any, deepest: int) -> tuple[Load, ...]:
    if not isinstance(value, list) or not value:
        raise PolicyError("loads is no list of loads: at least one is needed")
    loads = []
    for index, item in enumerate(value):
        load = _object(item, f"load {index}")
        _check_keys(load, needed=("max_batch_size", "step_time_ratios"))
        ratios = load["step_time_ratios"]
        if not isinstance(ratios, list) or len(ratios) != deepest + 1:
            raise PolicyError(f"load {index}: step_time_ratios needs one ratio for each depth from 0 to {deepest}")
        loads.append(
            Load(
                _whole(load["max_batch_size"], f"load {index}: max_batch_size", least=1, most=2**31),
                tuple(_number(ratio, f"load {index}: a ratio", least=1e-6, most=_MOST_RATIO) for ratio in ratios),
            )
        )
    sizes = [load.max_batch_size for load in loads]
    if sizes != sorted(set(sizes)):
        raise PolicyError(f"the batch sizes of its loads, {_SHOWN.repr(sizes)}, do not rise")
    return tuple(loads)


def _depths(value: Any, where: str, num_loads: int, deepest: int) -> tuple[int, ...]:
    depths = value if isinstance(value, list) else [value] * num_loads
    if len(depths) != num_loads:
        raise PolicyError(f"{where}: {len(depths)} depths for {num_loads} loads")
    return tuple(_whole(depth, f"{where}: a depth", least=0, most=deepest) for depth in depths)


def _live(value: Any) -> LiveRule:
    rule = _object(value, "live")
    _check_keys(rule, needed=tuple(LiveRule.__dataclass_fields__))
    return LiveRule(
        window_drafts=_whole(rule["window_drafts"], "live: window_drafts", least=2, most=2**31),
        hysteresis=_number(rule["hysteresis"], "live: hysteresis", least=0, most=1),
        min_dwell_s=_number(rule["min_dwell_s"], "live: min_dwell_s", least=0, most=1e9),
        probe_interval_s=_number(rule["probe_interval_s"], "live: probe_interval_s", least=0, most=1e9),
        probe_drafts=_whole(rule["probe_drafts"], "live: probe_drafts", least=2, most=2**31),
        num_standard_errors=_number(rule["num_standard_errors"], "live: num_standard_errors", least=0, most=10),
    )
