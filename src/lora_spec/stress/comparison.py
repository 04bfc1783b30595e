"""Policies of a grid against the best single depth and against the oracle, on the same arrivals."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lora_spec.errors import MeasurementError
from lora_spec.stress.policies.registry import BEST_STATIC, ORACLE
from lora_spec.stress.trials import mean_ratio

MEASURE = "mean time per request, from when it was due to its last token"
"""What gains and regrets are of: it holds waiting and decoding, below saturation and above."""

Place = tuple[str, str, float]


def compare_policies(cells: Iterable[Mapping[str, Any]], *, level: float, source: str) -> list[dict[str, Any]]:
    """Return one row per pattern, cache mode, rate and policy.

    ``gain`` is the best static depth's time per request over the policy's, minus 1; ``regret`` the policy's over the
    oracle's, minus 1; both as geometric means over paired trials. Requests that failed have no time and are counted
    beside; where some fail, the time flatters.

    Parameters
    ----------
    cells
        As :func:`lora_spec.stress.grid.run_grid` yields them.
    source
        ``simulated`` or ``live``.

    Raises
    ------
    MeasurementError
        The best static depth was not run everywhere, or not on the same seeds.
    """
    places: dict[Place, dict[str, dict[int, Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for item in cells:
        cell = item["cell"]
        place = (cell["pattern"], cell["cache_mode"], cell["request_rate_req_s"])
        places[place][cell["policy"]][cell["seed"]] = item
    return [row for place, runs in places.items() for row in _rows(place, runs, level=level, source=source)]


def stress_payload(cells: Sequence[Mapping[str, Any]], *, level: float, source: str, setup: str) -> dict[str, Any]:
    """Return the payload of a ``serving_stress`` result: the compared policies, and every cell behind them.

    Parameters
    ----------
    setup
        What all numbers hold for, in words.
    """
    return {
        "measure": MEASURE,
        "level": level,
        "setup": setup,
        "policies": compare_policies(cells, level=level, source=source),
        "cells": list(cells),
    }


def _rows(
    place: Place, runs: Mapping[str, Mapping[int, Mapping[str, Any]]], *, level: float, source: str
) -> list[dict[str, Any]]:
    if BEST_STATIC not in runs:
        raise MeasurementError(f"{place}: {BEST_STATIC} was not run, and gains are told against it; run it")
    return [_row(place, policy, runs, level=level) | {"source": source} for policy in runs]


def _row(
    place: Place, policy: str, runs: Mapping[str, Mapping[int, Mapping[str, Any]]], *, level: float
) -> dict[str, Any]:
    own = runs[policy]
    gain = mean_ratio(_times(runs[BEST_STATIC]), _times(own), level=level)
    regret = mean_ratio(_times(own), _times(runs[ORACLE]), level=level) if ORACLE in runs else None
    # One trial, or a policy against itself, has no interval.
    has_interval = len(own) > 1
    return {
        "pattern": place[0],
        "cache_mode": place[1],
        "request_rate_req_s": place[2],
        "policy": policy,
        "gain": gain.estimate - 1,
        "gain_lower": gain.lower - 1 if has_interval else None,
        "gain_upper": gain.upper - 1 if has_interval else None,
        "regret": None if regret is None else regret.estimate - 1,
        "regret_lower": regret.lower - 1 if regret is not None and has_interval else None,
        "regret_upper": regret.upper - 1 if regret is not None and has_interval else None,
        "mean_e2el_ms": sum(_times(own)) / len(own),
        "p50_tpot_ms": _mean(own, "tpot_ms", "p50"),
        "p99_ttft_ms": _mean(own, "ttft_ms", "p99"),
        "candidates": ", ".join(sorted({item["candidate"] for item in own.values()})),
        "num_trials": len(own),
        "num_requests": sum(item["summary"]["num_requests"] for item in own.values()),
        "num_failed": sum(item["summary"]["num_failed"] for item in own.values()),
        "num_good": sum(item["summary"]["num_good"] for item in own.values()),
    }


def _times(trials: Mapping[int, Mapping[str, Any]]) -> list[float]:
    return [trials[seed]["summary"]["times_ms"]["e2el_ms"]["mean"] for seed in sorted(trials)]


def _mean(trials: Mapping[int, Mapping[str, Any]], measure: str, statistic: str) -> float | None:
    values = [item["summary"]["times_ms"].get(measure, {}).get(statistic) for item in trials.values()]
    return None if None in values else sum(values) / len(values)
