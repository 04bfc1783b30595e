"""Verdicts for all adapters of a study: from measured acceptance, and from predictions made without each adapter."""

from collections.abc import Mapping, Sequence
from typing import Any

from lora_spec.cost_model import CostModel
from lora_spec.errors import ConfigError, ResultError
from lora_spec.gate.applicability import check_same_pair
from lora_spec.gate.commitment import check_certified, commitment_of
from lora_spec.gate.decide import abstain, decide
from lora_spec.gate.settings import gate_settings
from lora_spec.joins import by_adapter, check_same_weights
from lora_spec.records import AcceptanceEstimate, Verdict

Reason = tuple[str, str]


def decide_fleet(
    features: Sequence[Mapping[str, Any]],
    measured: Sequence[Mapping[str, Any]],
    predictions: Mapping[str, Any],
    *,
    cost_model: Mapping[str, Any],
    gate: Mapping[str, Any],
    context: Mapping[str, Any],
    provenance: Mapping[str, Any],
    certification: Mapping[str, Any] | None = None,
    traffic_shares: Mapping[str, float] | None = None,
) -> list[Verdict]:
    """Return two verdicts per measured adapter, in the order given: ``measured``, then that of the predictor's mode.

    Parameters
    ----------
    features
        Payloads of ``features`` results.
    measured
        Summaries with ``adapter``, ``estimate`` and ``base_estimate`` (an acceptance estimate's data each).
    predictions
        As :func:`lora_spec.predictors.held_out.fit_and_hold_out` gives them.
    cost_model
        :meth:`CostModel.to_dict` output.
    gate
        The values of ``gate.yaml``.
    context
        What all numbers hold for.
    certification
        Payload of a ``certification`` result: predicted verdicts are committed within its limits, each adapter within
        the one that its own source did not choose. None leaves the limits on the intervals.
    traffic_shares
        Share of requests by adapter; missing means unknown.

    Raises
    ------
    ResultError
        An adapter stands twice in a list, was made from other weights in another, or an estimate is not of the mode
        that its place needs.
    ConfigError
        A measured adapter has no features, the cost model was timed with another pair of models, or the certificate
        is of other predictions.
    """
    settings, model = gate_settings(gate), CostModel.from_dict(cost_model)
    check_same_pair(predictions["context"], model)
    if certification is not None:
        check_certified(certification, predictions["context"], settings)
    by_name = by_adapter(features, lambda item: item["adapter"]["name"], what="features")
    guesses = by_adapter(predictions["predictions"], _adapter_of, what="predictions")
    verdicts = []
    for name, summary in by_adapter(measured, _adapter_of, what="measured acceptances").items():
        if name not in by_name:
            raise ConfigError(f"adapter {name!r} was measured but has no features; extract them")
        _check_join(by_name[name], summary, guesses.get(name), predictions["context"]["mode"])
        common = {
            "cost_model": model,
            "settings": settings,
            "traffic_share": (traffic_shares or {}).get(name),
            "base": AcceptanceEstimate.from_dict(summary["base_estimate"]),
            "provenance": provenance,
        }
        estimate = AcceptanceEstimate.from_dict(summary["estimate"])
        verdicts.append(
            decide(
                estimate, adapter=by_name[name]["adapter"], remarks=_codes_of(by_name[name]), context=context, **common
            )
        )
        guess = guesses.get(name)
        # What is told from the file, such as of a zero update, was not judged: no certificate is about it.
        is_judged = certification is not None and guess is not None and guess["left_out"] is not None
        commitment = commitment_of(certification, source=guess["left_out"]) if is_judged else None
        verdicts.append(
            _predicted(by_name[name], guess, predictions["context"], context, common | {"commitment": commitment})
        )
    return verdicts


def _adapter_of(item: Mapping[str, Any]) -> str:
    return item["adapter"]


def _check_join(
    features: Mapping[str, Any], summary: Mapping[str, Any], guess: Mapping[str, Any] | None, mode: str
) -> None:
    """Refuse entries of one name that are not of the same weights, or not of the mode of their list."""
    name = summary["adapter"]
    weights = {"features": features["adapter"]["weights_sha256"], "measured counts": summary["adapter_sha256"]}
    modes = [("estimate", summary["estimate"], "measured"), ("base_estimate", summary["base_estimate"], "measured")]
    if guess is not None:
        weights["predictions"] = guess["adapter_sha256"]
        modes.append(("prediction", guess["estimate"], mode))
    check_same_weights(name, weights)
    for key, estimate, needed in modes:
        if estimate["mode"] != needed:
            raise ResultError(
                f"adapter {name!r}: {key} is of mode {estimate['mode']!r} where {needed!r} belongs; "
                "truth and guess must not change places: pass the right files"
            )


def _codes_of(features: Mapping[str, Any]) -> list[Reason]:
    return [(code, features["message"]) for code in features["codes"]]


def _predicted(
    features: Mapping[str, Any],
    guess: Mapping[str, Any] | None,
    predictor_context: Mapping[str, Any],
    context: Mapping[str, Any],
    common: Mapping[str, Any],
) -> Verdict:
    """Return the verdict from the held-out prediction; without one the inspection's codes say why."""
    if guess is None:
        return abstain(
            adapter=features["adapter"],
            mode=predictor_context["mode"],
            reasons=_codes_of(features) or [("R_NO_PREDICTION", "no prediction was made for this adapter")],
            provenance=common["provenance"],
        )
    return decide(
        AcceptanceEstimate.from_dict(guess["estimate"]),
        adapter=features["adapter"],
        remarks=_codes_of(features),
        context={**context, **predictor_context, "left_out": guess["left_out"]},
        predictor_sha256=guess["predictor_sha256"],
        **common,
    )
