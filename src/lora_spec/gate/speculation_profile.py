"""An adapter's ``speculation_profile.json``, with the field names of the format that NVIDIA's Model-Optimizer proposes.

The format (schema 1.0, pull requests 2247, 2313, 2315 and 2316 of that project, open at this time) describes a drafter
on one target; here the target is the base with one adapter. Its words:

- ``marginal_accept_rates``: P(the first i drafts are all accepted), a_i of :mod:`lora_spec.records`
- ``conditional_accept_rates``: P(draft i accepted | all before it), r_i = a_i / a_(i-1)
- ``mean_accept_length``: tokens per draft step with the bonus token, E_K = 1 + sum a_i
- ``acceptance_length_histogram``: number of draft steps by tokens gained, 1 to K + 1

A vector comes from counts alone. Where there are none, ``measured`` or the vectors are missing, and a prediction stands
under a key of its own, so that nobody takes it for a measurement.
"""

from collections.abc import Mapping
from typing import Any

from lora_spec.errors import ResultError
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.joins import check_same_weights
from lora_spec.printing import printable
from lora_spec.records import AcceptanceCounts

SCHEMA_VERSION = "1.0"
_PROMPT_SET = "own"
_TOLERANCE = 1e-9
_PREDICTED_FROM = {
    "checkpoint_only": "predicted from the adapter's file: nothing was counted",
    "checkpoint_base": "predicted from the adapter's file and its base's profile: nothing was counted",
    "checkpoint_calib": "predicted from the adapter's file and a probe of its prompts: no draft was counted",
}


def speculation_profile(
    verdict: FleetVerdict, summary: Mapping[str, Any] | None, *, conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one adapter's profile.

    Parameters
    ----------
    summary
        The adapter's entry in a ``measured_acceptance`` result; None where it was not measured or not given.
    conditions
        What all measurements of the fleet share, such as the engine.

    Raises
    ------
    ResultError
        The summary is of other weights than the verdict, or holds no counts on the adapter's own prompts.
    """
    common = {
        "schema_version": SCHEMA_VERSION,
        "measured": summary is not None or verdict.mode == "measured",
        "method": "draft_model",
        "draft_checkpoint": _named(verdict.context.get("draft_model")),
        "target_model": _named(verdict.context.get("target_model")),
        "lora_adapter": {"name": verdict.name, "weights_sha256": verdict.weights_sha256},
        "block_size": None,
        "verification_method": "longest_prefix",
        "accept_length_model": "chain_analytic",
        "per_category": None,
    }
    if summary is not None:
        return common | _from_counts(verdict, summary, conditions)
    if verdict.mode == "measured":
        return common | _from_measured_verdict(verdict, conditions)
    return common | _from_prediction(verdict, conditions)


def _named(model: Any) -> dict[str, str] | None:
    return {"id": model} if isinstance(model, str) else None


def _from_counts(verdict: FleetVerdict, summary: Mapping[str, Any], conditions: Mapping[str, Any]) -> dict[str, Any]:
    check_same_weights(verdict.name, {"verdict": verdict.weights_sha256, "measured counts": summary["adapter_sha256"]})
    effect = next((effect for effect in summary["effects"] if effect["prompt_set"] == _PROMPT_SET), None)
    if effect is None or not effect["counts"]["adapted"]["num_drafts"]:
        raise ResultError(
            f"adapter {printable(verdict.name)}: no drafts on its own prompts among the measured counts; measure it"
        )
    counts = AcceptanceCounts.from_dict(effect["counts"]["adapted"])
    marginal, mean = counts.acceptance_rate_per_pos or (), counts.acceptance_length
    by_depth = summary["estimate"]["acceptance_length_by_depth"]
    return {
        "num_speculative_tokens": counts.num_speculative_tokens,
        "max_supported_k": len(by_depth),
        "conditional_accept_rates": conditional_rates(marginal),
        "marginal_accept_rates": list(marginal),
        "mean_accept_length": mean,
        "accept_length_by_k": {str(k): length["estimate"] for k, length in enumerate(by_depth, start=1)},
        "acceptance_length_histogram": length_histogram(counts),
        "measurement_conditions": {
            **conditions,
            "dataset": "the adapter's own prompts",
            "num_samples": effect["num_prompts"],
            "num_drafts": counts.num_drafts,
        },
        "validation": _validation(marginal, mean),
    }


def _unavailable(reason: str, conditions: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "conditional_accept_rates": None,
        "marginal_accept_rates": None,
        "vectors_unavailable_reason": reason,
        "acceptance_length_histogram": None,
        "measurement_conditions": dict(conditions),
        "validation": None,
    }


def _from_measured_verdict(verdict: FleetVerdict, conditions: Mapping[str, Any]) -> dict[str, Any]:
    depth, length = verdict.context.get("num_speculative_tokens"), verdict.acceptance_length
    mean = None if length is None else length.estimate
    return _unavailable("the verdict holds the acceptance length alone; pass --measured for counts", conditions) | {
        "num_speculative_tokens": depth,
        "max_supported_k": depth,
        "mean_accept_length": mean,
        "accept_length_by_k": {} if None in (depth, mean) else {str(depth): mean},
    }


def _from_prediction(verdict: FleetVerdict, conditions: Mapping[str, Any]) -> dict[str, Any]:
    depth, length = verdict.context.get("num_speculative_tokens"), verdict.acceptance_length
    told = None if length is None else {key: getattr(length, key) for key in ("estimate", "lower", "upper", "level")}
    # Nothing was counted, so neither is it said how.
    shared = {key: value for key, value in conditions.items() if key not in ("counted_by", "evidence")}
    return _unavailable(_PREDICTED_FROM.get(verdict.mode, "predicted: nothing was counted"), shared) | {
        "num_speculative_tokens": depth,
        "max_supported_k": depth,
        "mean_accept_length": None,
        "accept_length_by_k": {},
        "prediction": {
            "mode": verdict.mode,
            "predictor_sha256": verdict.predictor_sha256,
            "num_speculative_tokens": depth,
            "mean_accept_length": told,
        },
    }


def conditional_rates(marginal: tuple[float, ...]) -> list[float]:
    """Return r_i = a_i / a_(i-1), with a_0 = 1; 0 where no draft came that far."""
    return [rate / before if before else 0.0 for before, rate in zip((1.0, *marginal), marginal, strict=False)]


def length_histogram(counts: AcceptanceCounts) -> dict[str, int]:
    """Return the number of draft steps by tokens gained, the bonus token included."""
    reached = (counts.num_drafts, *counts.num_accepted_tokens_per_pos, 0)
    return {str(length): reached[length - 1] - reached[length] for length in range(1, len(reached))}


def _validation(marginal: tuple[float, ...], mean: float | None) -> dict[str, Any]:
    implied, told = 1 + sum(marginal), mean or 0.0
    delta = abs(implied - told)
    return {
        "mean_consistency": {
            "implied_mean_accept_length": implied,
            "reported_mean_accept_length": told,
            "abs_delta": delta,
            "tolerance": _TOLERANCE,
            "passed": delta <= _TOLERANCE,
        },
        "marginal_monotonicity": {"passed": True, "violations": []},
    }
