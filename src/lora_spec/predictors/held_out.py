"""Fit on all adapters for use, and predict each adapter from those of other sources for judgement."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lora_spec.errors import PredictorError
from lora_spec.predictors.examples import TrainingExample, each_source_left_out
from lora_spec.predictors.fitting import fit_predictor
from lora_spec.predictors.joining import check_joined, examples_of, teaching_features
from lora_spec.predictors.prediction import zero_update_estimate
from lora_spec.predictors.prepared import prepare
from lora_spec.predictors.settings import fit_settings, variant_options
from lora_spec.predictors.workers import run_all
from lora_spec.provenance import sha256_of_json
from lora_spec.records import AcceptanceRecord

Fit = Callable[[Sequence[TrainingExample]], dict[str, Any]]


@dataclass(frozen=True)
class FittedAndHeldOut:
    """``predictor`` is the export; ``predictions`` holds one estimate per adapter, made without its source."""

    predictor: dict[str, Any]
    predictions: dict[str, Any]


def fit_and_hold_out(
    features: Sequence[Mapping[str, Any]],
    records: Sequence[AcceptanceRecord],
    *,
    gate: Mapping[str, Any],
    sources: Mapping[str, str],
    target_model: str,
    draft_model: str,
    prompt_set: str = "own",
    num_calibration_prompts: int | None = None,
    num_workers: int = 1,
) -> FittedAndHeldOut:
    """Return the exported predictor and the held-out predictions.

    Parameters
    ----------
    features, records
        Payloads of ``features`` results and acceptance records, joined by the adapter's name. Adapters whose
        inspection is not ``ok``, or whose update is zero, teach nothing: they are listed under ``excluded``. A zero
        update is still predicted, to behave like the base.
    gate
        The values of ``gate.yaml``.
    sources
        The source (domain) of each adapter by name; it is left out whole.
    num_calibration_prompts
        Of the probes behind the columns, where features hold any.
    num_workers
        Processes among which the left-out sources are shared; the numbers do not depend on it.

    Raises
    ------
    PredictorError
        An adapter lacks its record or its source, or too few are left.
    ResultError
        An adapter stands twice, or its features and its counts are of different weights, taught from or not.
    """
    check_joined(features, records)
    teaching = teaching_features(features)
    mode = gate["predictor"]["mode"]
    examples = examples_of(teaching, records, mode=mode, sources=sources, prompt_set=prompt_set)

    fit = partial(
        fit_predictor,
        gate["predictor"]["model"],
        settings=fit_settings(gate),
        options=variant_options(gate),
        target_model=target_model,
        draft_model=draft_model,
        num_calibration_prompts=num_calibration_prompts,
    )
    predictor, *parts = run_all(
        [(fit, (examples,))] + [(_predict_left_out, (fit, *parts)) for parts in each_source_left_out(examples)],
        num_workers=num_workers,
    )
    context = {
        "target_model": target_model,
        "draft_model": draft_model,
        "mode": predictor["mode"],
        "predictor": predictor["predictor"],
        "prompt_set": prompt_set,
        "training_sha256": predictor["training_sha256"],
    }
    excluded = [item for item in features if item not in teaching]
    predictions = [item for part in parts for item in part] + _zero_updates(excluded, predictor)
    listed = [{"adapter": item["adapter"]["name"], "codes": item["codes"]} for item in excluded]
    return FittedAndHeldOut(predictor, {"context": context, "predictions": predictions, "excluded": listed})


def _predict_left_out(
    fit: Fit, source: str, inside: Sequence[TrainingExample], outside: Sequence[TrainingExample]
) -> list[dict[str, Any]]:
    try:
        fitted = fit(inside)
    except PredictorError as err:
        raise PredictorError(f"without source {source!r}: {err}") from err
    prepared = prepare(fitted)
    return [
        {
            "adapter": example.adapter,
            "adapter_sha256": example.adapter_sha256,
            "left_out": source,
            "num_training_adapters": fitted["num_adapters"],
            "predictor_sha256": sha256_of_json(fitted),
            "estimate": prepared.predict(example.columns).to_dict(),
        }
        for example in outside
    ]


def _zero_updates(excluded: Sequence[Mapping[str, Any]], predictor: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "adapter": item["adapter"]["name"],
            "adapter_sha256": item["adapter"]["weights_sha256"],
            "left_out": None,
            "num_training_adapters": predictor["num_adapters"],
            "predictor_sha256": sha256_of_json(predictor),
            "estimate": zero_update_estimate(predictor).to_dict(),
        }
        for item in excluded
        if item["status"] == "ok"
    ]
