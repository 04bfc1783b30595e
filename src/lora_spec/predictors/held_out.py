"""Fit on all adapters for use, and predict each adapter from those of other sources for judgement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lora_spec.errors import PredictorError
from lora_spec.joins import by_adapter, check_same_weights
from lora_spec.predictors.examples import TrainingExample, training_example
from lora_spec.predictors.fitting import fit_predictor
from lora_spec.predictors.prediction import predict, zero_update_estimate
from lora_spec.predictors.settings import fit_settings, variant_options
from lora_spec.provenance import sha256_of_json
from lora_spec.records import AcceptanceRecord

_ZERO_UPDATE = "N_ZERO_UPDATE"


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

    Raises
    ------
    PredictorError
        An adapter lacks its record or its source, or too few are left.
    ResultError
        An adapter stands twice, or its features and its counts are of different weights, taught from or not.
    """
    _check_joined(features, records)
    teaching = [item for item in features if item["status"] == "ok" and _ZERO_UPDATE not in item["codes"]]
    examples = _examples(teaching, records, gate=gate, sources=sources, prompt_set=prompt_set)

    def fit(chosen: Sequence[TrainingExample]) -> dict[str, Any]:
        return fit_predictor(
            gate["predictor"]["model"],
            chosen,
            settings=fit_settings(gate),
            options=variant_options(gate),
            target_model=target_model,
            draft_model=draft_model,
        )

    predictor = fit(examples)
    context = {
        "target_model": target_model,
        "draft_model": draft_model,
        "mode": predictor["mode"],
        "predictor": predictor["predictor"],
        "prompt_set": prompt_set,
        "training_sha256": predictor["training_sha256"],
    }
    excluded = [item for item in features if item not in teaching]
    predictions = _held_out(examples, fit) + _zero_updates(excluded, predictor)
    listed = [{"adapter": item["adapter"]["name"], "codes": item["codes"]} for item in excluded]
    return FittedAndHeldOut(predictor, {"context": context, "predictions": predictions, "excluded": listed})


def _check_joined(features: Sequence[Mapping[str, Any]], records: Sequence[AcceptanceRecord]) -> None:
    by_name = by_adapter(records, lambda record: record.adapter, what="acceptance records")
    for name, item in by_adapter(features, lambda item: item["adapter"]["name"], what="features").items():
        if name in by_name:
            weights = {"features": item["adapter"]["weights_sha256"], "counts": by_name[name].adapter_sha256}
            check_same_weights(name, weights)


def _examples(
    features: Sequence[Mapping[str, Any]],
    records: Sequence[AcceptanceRecord],
    *,
    gate: Mapping[str, Any],
    sources: Mapping[str, str],
    prompt_set: str,
) -> list[TrainingExample]:
    by_name = {record.adapter: record for record in records}
    examples = []
    for item in features:
        name = item["adapter"]["name"]
        if name not in by_name or name not in sources:
            missing = "acceptance record" if name not in by_name else "source"
            raise PredictorError(f"adapter {name!r} has features but no {missing}; add it or leave the adapter out")
        mode = gate["predictor"]["mode"]
        examples.append(training_example(item, by_name[name], mode=mode, source=sources[name], prompt_set=prompt_set))
    return examples


def _held_out(examples: Sequence[TrainingExample], fit: Any) -> list[dict[str, Any]]:
    predictions = []
    for source in sorted({example.source for example in examples}):
        fitted = fit([example for example in examples if example.source != source])
        predictions += [
            {
                "adapter": example.adapter,
                "adapter_sha256": example.adapter_sha256,
                "left_out": source,
                "num_training_adapters": fitted["num_adapters"],
                "predictor_sha256": sha256_of_json(fitted),
                "estimate": predict(fitted, example.columns).to_dict(),
            }
            for example in examples
            if example.source == source
        ]
    return predictions


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
