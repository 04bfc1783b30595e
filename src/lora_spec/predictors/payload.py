"""The ``predictor`` and ``predictions`` results: their payloads, and reading them."""

from collections.abc import Collection
from pathlib import Path

from typing_extensions import TypedDict

from lora_spec.predictors.exported import check_exported
from lora_spec.records import AcceptanceEstimate, Evidence, Mode
from lora_spec.results import Result, naming, read_result
from lora_spec.typed import AdapterName, read_typed_result


class PredictionContext(TypedDict):
    """What all predictions of a file hold for."""

    target_model: str
    draft_model: str
    mode: Mode
    predictor: str
    prompt_set: str
    training_sha256: str


class PredictionPayload(TypedDict):
    """One adapter's held-out prediction; ``left_out`` is the source that the fit never saw."""

    adapter: AdapterName
    adapter_sha256: str
    left_out: str | None
    num_training_adapters: int
    predictor_sha256: str
    estimate: AcceptanceEstimate


class ExcludedPayload(TypedDict):
    """An adapter that taught nothing, with the codes that say why."""

    adapter: AdapterName
    codes: list[str]


class PredictionsPayload(TypedDict):
    """What :func:`lora_spec.predictors.held_out.fit_and_hold_out` gives as predictions."""

    context: PredictionContext
    predictions: list[PredictionPayload]
    excluded: list[ExcludedPayload]


def read_predictions(path: Path, *, tier: str | None = None) -> Result:
    """Return the held-out predictions, as plain data; raises ResultError that names the file."""
    return read_typed_result(path, "predictions", PredictionsPayload, tier=tier)


def read_predictor(path: Path, *, evidence: Collection[Evidence] = ("measured",)) -> Result:
    """Return an exported predictor that can be asked; raises ResultError that names the file."""
    result = read_result(path, "predictor", evidence=evidence)
    with naming(path):
        check_exported(result.payload)
    return result
