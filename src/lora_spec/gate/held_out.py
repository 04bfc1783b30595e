"""Fit the predictor, and predict each adapter of a study from adapters of other domains only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lora_spec.evaluation.splits import predict_across
from lora_spec.predictors import (
    TrainingExample,
    fit_predictor,
    fit_settings,
    predict,
    training_example,
    variant_options,
)


@dataclass(frozen=True)
class HeldOutFit:
    """The predictor to export, and the honest predictions of the adapters that it was fitted on."""

    predictor: dict[str, Any]
    predictions: dict[str, Any]


def fit_and_hold_out(
    *, features: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> HeldOutFit:
    """Return the predictor fitted on all adapters and, beside it, predictions that never saw the adapter's domain.

    Parameters
    ----------
    features, records
        Payloads of the ``features`` and ``acceptance_record`` results, adapters in the same order.
    settings
        ``gate`` (gate.yaml), ``domains`` (adapter name to domain) and ``context`` (target and drafter names).
    """
    mode = settings["gate"]["predictor"]["mode"]
    examples = [
        training_example(feature, record, mode=mode, source=settings["domains"][record["adapter"]], prompt_set="own")
        for feature, record in zip(features, records, strict=True)
    ]

    def fit(chosen: Sequence[TrainingExample]) -> dict[str, Any]:
        return fit_predictor(
            settings["gate"]["predictor"]["model"],
            chosen,
            settings=fit_settings(settings["gate"]),
            options=variant_options(settings["gate"]),
            target_model=settings["context"]["target_model"],
            draft_model=settings["context"]["draft_model"],
        )

    sources = [example.source for example in examples]
    guesses = predict_across(examples, sources, fit=fit, predict=lambda fitted, one: predict(fitted, one.columns))
    by_adapter = {example.adapter: guess.to_dict() for example, guess in zip(examples, guesses, strict=True)}
    return HeldOutFit(fit(examples), {"mode": mode, "context": settings["context"], "estimates": by_adapter})
