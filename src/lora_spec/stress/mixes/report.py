"""The payload of ``gate_regret``: mixes drawn, contenders run, verdicts held against off and standing at every load."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.stress.mixes.contenders import Contender
from lora_spec.stress.mixes.mix import Mix
from lora_spec.stress.mixes.regret import summary_of
from lora_spec.stress.mixes.study import Evidence, Study


def gate_regret(
    evidence: Evidence,
    *,
    gate: Mapping[str, Any],
    baselines: Mapping[str, Any],
    traffic: Mapping[str, Any],
    scored: Sequence[str],
    threads: int = 1,
) -> dict[str, Any]:
    """Return the payload.

    Parameters
    ----------
    gate, baselines, traffic
        The values of the three config files.
    scored
        Adapters that mixes are drawn from: no copies, controls or repeats. Load cells are of all that were measured.
    """
    study = Study(evidence, gate, baselines, traffic, tuple(scored))
    contenders = study.contenders()
    mixes = study.mixes()
    regrets = study.regrets(contenders, mixes, threads=threads)
    return {
        "context": study.context(),
        "bars": {key: study.rules[key] for key in _BARS},
        "mixes": [{"pattern": mix.pattern, "num_adapters": len(mix.places)} for mix in mixes],
        "contenders": [_contender(one, found, mixes, study) for one, found in zip(contenders, regrets, strict=True)],
        "load_cells": [study.load_cells(mode, variant) for mode, variant in study.policies],
        "by_saving": study.by_saving(contenders, mixes, threads=threads),
    }


_BARS = ("max_mean_regret", "max_p95_regret", "max_tpot_loss", "tpot_level")


def _contender(one: Contender, regrets: NDArray[np.float64], mixes: Sequence[Mix], study: Study) -> dict[str, Any]:
    """Return one contender's regrets, shape ``(loads, mixes)``, and what they come to."""
    patterns = np.array([mix.pattern for mix in mixes])
    overall = summary_of(regrets)
    return {
        **{key: getattr(one, key) for key in ("policy", "basis", "variant", "is_ours")},
        "overall": overall,
        "by_load": [
            {"batch_size": size, **summary_of(found)} for size, found in zip(study.sizes, regrets, strict=True)
        ],
        "by_pattern": {str(name): summary_of(regrets[:, patterns == name]) for name in dict.fromkeys(patterns)},
        "is_mean_met": overall["mean"] <= study.rules["max_mean_regret"],
        "is_p95_met": overall["p95"] <= study.rules["max_p95_regret"],
        "regrets": regrets.tolist(),
    }
