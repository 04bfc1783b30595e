"""How far single live trials lie from each other, and what a comparison with them can therefore say."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from lora_spec.errors import MeasurementError
from lora_spec.stress.trials import mean_ratio

Trials = Mapping[str, Mapping[int, float]]
"""Median TPOT in ms, by policy and seed."""

MAX_MAPE, NOISE_FACTOR = 0.08, 1.5
LEVEL = 0.9


def against_noise(live: Trials, simulated: Trials, errors: Mapping[str, float]) -> dict[str, Any]:
    """Return what the errors of a simulation come to beside the noise of the trials.

    ``tpot_mape`` is the mean absolute error over policies, all trials together; it is met up to the larger of 8 % and
    1.5 times the noise. Of the pairs of policies those are clear whose live TPOTs differ beyond the interval of their
    paired ratio; the others are ties, which no simulator can order.

    Parameters
    ----------
    errors
        Simulated over real median TPOT minus 1, by policy.

    Raises
    ------
    MeasurementError
        The two sides are not of the same trials.
    """
    if {name: set(found) for name, found in live.items()} != {name: set(found) for name, found in simulated.items()}:
        raise MeasurementError("real and simulated trials are not of the same policies and seeds; simulate all of them")
    noise = trial_noise(live, simulated)
    mape = float(np.mean(np.abs(list(errors.values()))))
    most = max(MAX_MAPE, NOISE_FACTOR * (noise or 0.0))
    clear = _clear_pairs(live)
    return {
        "tpot_mape": mape,
        "run_to_run_noise": noise,
        "max_tpot_mape": most,
        "is_tpot_mape_met": mape <= most,
        "num_pairs": len(live) * (len(live) - 1) // 2,
        "num_clear_pairs": len(clear),
        "num_reversed_clear_pairs": sum(_mean_log(simulated, first, second) <= 0 for first, second in clear),
    }


def trial_noise(live: Trials, simulated: Trials) -> float | None:
    """Return the relative noise of one trial; None where every policy has one trial only.

    Trials of different seeds have different arrivals, so what is compared over seeds is the live time over the
    simulated one of the same arrivals: the standard deviation of its logarithm, pooled over policies.
    """
    variances = [
        np.var([np.log(live[name][seed] / simulated[name][seed]) for seed in found], ddof=1)
        for name, found in live.items()
        if len(found) > 1
    ]
    return float(np.sqrt(np.mean(variances))) if variances else None


def _clear_pairs(live: Trials) -> list[tuple[str, str]]:
    """Return the pairs that live trials tell apart, the slower policy first."""
    found = []
    for first, second in combinations(live, 2):
        seeds = sorted(set(live[first]) & set(live[second]))
        if len(seeds) < 2:
            continue
        ratio = mean_ratio([live[first][s] for s in seeds], [live[second][s] for s in seeds], level=LEVEL)
        if ratio.lower > 1:
            found.append((first, second))
        elif ratio.upper < 1:
            found.append((second, first))
    return found


def _mean_log(trials: Trials, first: str, second: str) -> float:
    seeds = set(trials[first]) & set(trials[second])
    return float(np.mean([np.log(trials[first][seed] / trials[second][seed]) for seed in seeds]))
