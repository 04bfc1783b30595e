"""Fit and hold out from the files of a study: features, counts, and calibration probes where a predictor sees them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lora_spec.features.calibration import with_calibrations
from lora_spec.features.payload import read_features
from lora_spec.measurement.calibration_table import read_calibration
from lora_spec.measurement.record_table import read_records
from lora_spec.predictors.held_out import FittedAndHeldOut, fit_and_hold_out
from lora_spec.predictors.settings import probed_gate


def fit_files(
    features: Sequence[Path],
    records: Sequence[Path],
    calibration: Sequence[Path],
    *,
    settings: Mapping[str, Any],
    tier: str,
    num_workers: int,
) -> FittedAndHeldOut:
    """Return the predictor and its held-out predictions.

    Parameters
    ----------
    calibration
        Probes, one per adapter: the predictor then sees the largest number of prompts that the gate names, whatever
        mode the gate asks for without them. None leaves it to the gate's mode.
    settings
        ``gate`` (values of ``gate.yaml``), ``domains`` (source by adapter) and ``context`` (names of the pair).

    Raises
    ------
    PredictorError, ResultError, MeasurementError
        As :func:`~lora_spec.predictors.held_out.fit_and_hold_out`; or a file is not of its kind or of another tier.
    """
    gate = settings["gate"]
    num_prompts = max(gate["comparison"]["num_calibration_prompts"])
    seen = with_calibrations(
        [read_features(path, tier=tier) for path in features],
        [read_calibration(path, tier=tier) for path in calibration],
        num_prompts,
    )
    return fit_and_hold_out(
        seen,
        [read_records(path, tier=tier) for path in records],
        gate=probed_gate(gate) if calibration else gate,
        sources=settings["domains"],
        target_model=settings["context"]["target_model"],
        draft_model=settings["context"]["draft_model"],
        num_calibration_prompts=num_prompts if calibration else None,
        num_workers=num_workers,
    )
