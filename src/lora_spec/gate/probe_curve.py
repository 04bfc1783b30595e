"""What more calibration prompts buy and cost: the direct probe of N prompts against the predictor that sees N too.

The predictor is the one that ``gate.yaml`` names, chosen before any probe was scored; the others are compared at the
largest N alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from lora_spec.calibration_record import CalibrationRecord
from lora_spec.evaluation import Resampled, spearman
from lora_spec.features.calibration import with_calibrations
from lora_spec.gate.comparison_scores import ScoredAdapters, as_dict
from lora_spec.measurement.probe_cost import ASSUMED, cost_of_all_signals, cost_of_direct_probe, mean_cost
from lora_spec.predictors.columns import CheckpointCalibColumns
from lora_spec.predictors.held_out_comparison import Contender, HeldOutComparison, guess_from_probes
from lora_spec.records import AcceptanceRecord

_DIRECT_PROBE = "direct_probe"


def probe_curve(
    found: HeldOutComparison,
    truth: ScoredAdapters,
    *,
    features: Sequence[Mapping[str, Any]],
    records: Sequence[AcceptanceRecord],
    probes: Sequence[CalibrationRecord],
    gate: Mapping[str, Any],
    sources: Mapping[str, str],
    prompt_set: str,
) -> dict[str, Any] | None:
    """Return scores, paired differences and costs by number of prompts; None where adapters lack their probe.

    Parameters
    ----------
    found, truth
        The main comparison, whose probe has the largest number of prompts, and the adapters that count.
    features
        As they are without a probe.

    Raises
    ------
    MeasurementError
        A probe holds fewer prompts than are asked for.
    """
    mode, model = CheckpointCalibColumns.mode, gate["predictor"]["model"]
    if not probes or mode in found.lacking:
        return None
    by_key = {(contender.predictor, contender.mode): contender for contender in found.contenders}
    sizes, most = gate["comparison"]["num_calibration_prompts"], max(gate["comparison"]["num_calibration_prompts"])
    pairs = {most: (by_key[_DIRECT_PROBE, None], by_key[model, mode])}
    for size in sizes[:-1]:
        seen = with_calibrations(features, probes, size)
        pairs[size] = guess_from_probes(seen, records, gate=gate, sources=sources, prompt_set=prompt_set)
    counted = [probe for probe in probes if probe.adapter in set(truth.names)]
    free = by_key.get((model, gate["predictor"]["mode"]))
    return {
        "predictor": model,
        "mode": mode,
        "without_probe": None if free is None else as_dict(_order(free, truth), gate["level"]),
        "without_probe_mode": gate["predictor"]["mode"],
        "cost_is": ASSUMED,
        "mean_other_cores": float(np.mean([probe.other_cores for probe in counted])),
        "sizes": [_size(size, *pairs[size], counted, truth, gate["level"]) for size in sizes],
    }


def _size(
    size: int,
    direct: Contender,
    predictor: Contender,
    probes: Sequence[CalibrationRecord],
    truth: ScoredAdapters,
    level: float,
) -> dict[str, Any]:
    simple, learnt = _order(direct, truth), _order(predictor, truth)
    return {
        "num_prompts": size,
        "direct_probe": as_dict(simple, level),
        "predictor": as_dict(learnt, level),
        "difference": as_dict(learnt.minus(simple), level),
        "direct_probe_cost": asdict(mean_cost([cost_of_direct_probe(probe, size) for probe in probes])),
        "predictor_cost": asdict(mean_cost([cost_of_all_signals(probe, size) for probe in probes])),
    }


def _order(contender: Contender, truth: ScoredAdapters) -> Resampled:
    """Return Spearman of guessed with measured acceptance length, on the draws that all scores share."""
    lengths = [contender.guesses[name].acceptance_length for name in truth.names]
    return truth.draws.resample(spearman, lengths, truth.lengths)
