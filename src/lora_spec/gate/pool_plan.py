"""The plan of pools as files: ``pools.json`` for programs, ``pools.sh`` to start an engine by its pool's name."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lora_spec.gate.engine_choice import DraftingGain, gain_at
from lora_spec.gate.gain_words import gain_words
from lora_spec.gate.pools import Pool, headline_index
from lora_spec.gate.serve_commands import Serving, merge_command, one_engine_command, pool_command, shell_line
from lora_spec.gate.settings import GateSettings
from lora_spec.records import Interval

# Counters by adapter live in the engine's process; in such a folder the server finds them and shows them on /metrics.
_SHARED_METRICS = [
    '  [ -n "${PROMETHEUS_MULTIPROC_DIR-}" ] || PROMETHEUS_MULTIPROC_DIR=$(mktemp -d)',
    "  export PROMETHEUS_MULTIPROC_DIR",
]
ONE_ENGINE, NO_DRAFTER = "one-engine", "no-drafter"
"""Names of the engine that obeys ``policy.json`` and needs no pools, and of the one that cannot draft at all."""


def pool_plan(
    pools: Sequence[Pool],
    payload: Mapping[str, Any],
    *,
    settings: GateSettings,
    serving: Serving,
    off_tax: Interval | None = None,
    gains: Sequence[DraftingGain] = (),
) -> dict[str, Any]:
    """Return the payload of ``pools.json``.

    Parameters
    ----------
    payload
        Payload of ``policy.json``.
    off_tax
        What being off in an engine that can draft costs (:func:`lora_spec.gate.pools.off_in_engine_tax`); None where
        nobody has measured it.
    gains
        Of the one engine over one without a drafter, by load; none where the tax is not known.
    """
    index, names = headline_index(payload, settings), list(payload["adapters"])
    batch_size = payload["loads"][index]["max_batch_size"]
    command = one_engine_command(names, payload["max_num_speculative_tokens"], serving)
    plain = pool_command(Pool(NO_DRAFTER, 0, tuple(names)), serving, port=serving.first_port)
    return {
        "batch_size": batch_size,
        "standing_num_speculative_tokens": settings.standing_num_speculative_tokens,
        "pools": [_pool(pool, serving, port=serving.first_port + place) for place, pool in enumerate(pools)],
        "one_engine": {"name": ONE_ENGINE, "command": command, "shell": shell_line(command)},
        "no_drafter": {"name": NO_DRAFTER, "command": plain, "shell": shell_line(plain)},
        "drafting_gain": _gain(gain_at(gains, batch_size), gains),
        "drafting_gain_by_load": [
            {"batch_size": gain.batch_size, "goodput_ratio": gain.goodput_ratio} for gain in gains
        ],
        "off": _off(pools, payload, index, off_tax),
    }


def _pool(pool: Pool, serving: Serving, *, port: int) -> dict[str, Any]:
    command, prepare = pool_command(pool, serving, port=port), merge_command(pool, serving)
    return {
        **asdict(pool),
        "adapters": list(pool.adapters),
        "prepare": prepare,
        "command": command,
        "shell": " && ".join(shell_line(words) for words in (prepare, command) if words),
    }


def _gain(gain: DraftingGain | None, gains: Sequence[DraftingGain]) -> dict[str, Any] | None:
    if gain is None:
        return None
    told = {**asdict(gain), "unknown_adapters": list(gain.unknown_adapters)}
    return {**told, "is_drafter_worth_it": gain.is_drafter_worth_it, "told": gain_words(gain, gains)}


def _off(pools: Sequence[Pool], payload: Mapping[str, Any], index: int, tax: Interval | None) -> dict[str, Any]:
    """Return who is off where: an engine that can draft and does not is slower than one that cannot."""
    return {
        "in_engine": [name for name, depths in payload["adapters"].items() if depths[index] == 0],
        "in_another_pool": [n for pool in pools if not pool.num_speculative_tokens for n in pool.adapters],
        "in_engine_tax": None if tax is None else asdict(tax),
    }


def pool_script(plan: Mapping[str, Any]) -> str:
    """Return a POSIX shell script: ``sh pools.sh NAME`` starts that engine, further words go to ``vllm serve``."""
    engines = [*plan["pools"], plan["one_engine"], plan["no_drafter"]]
    lines = [
        "#!/bin/sh",
        "# sh pools.sh NAME [flags of vllm serve]: start one engine of a plan made by lora-spec policy.",
        '# SERVE: words in place of "vllm serve", where that command is called otherwise or does not start.',
        "# PYTHON: an interpreter with PEFT, which merges weights for a pool of one hot adapter.",
        "set -euf",
        'name=${1-}; [ "$#" -eq 0 ] || shift',
        'case "$name" in',
    ]
    for engine in engines:
        lines.append(f"{engine['name']})")
        if engine.get("prepare"):
            python, *words = engine["prepare"]
            lines.append(f"  [ -e {shell_line([engine['command'][2]])} ] || ${{PYTHON:-{python}}} {shell_line(words)}")
        if engine["name"] == ONE_ENGINE:
            lines += _SHARED_METRICS
        # Last, so that the caller's flags overrule those of the plan.
        lines.append(f'  exec ${{SERVE:-vllm serve}} {shell_line(engine["command"][2:])} "$@" ;;')
    names = " ".join(engine["name"] for engine in engines)
    lines += [f"*) echo 'usage: sh pools.sh NAME; names: {names}' >&2; exit 2 ;;", "esac"]
    return "\n".join(lines) + "\n"
