"""Does the gate abstain more where a whole family of adapters was never seen? Paired over the same adapters.

Each adapter is judged twice by the same certified limit: once as everywhere, predicted without its own source, and
once without its source and its whole family. No threshold is chosen here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lora_spec.cost_model import CostModel
from lora_spec.errors import ResultError
from lora_spec.evaluation import draw_sources
from lora_spec.gate.commitment import check_certified, commitment_of, says_nothing
from lora_spec.gate.comparison_scores import as_dict
from lora_spec.gate.decide import decide
from lora_spec.gate.settings import gate_settings
from lora_spec.joins import by_adapter
from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.family_left_out import LeftOut, predict_family_left_out
from lora_spec.predictors.joining import check_held_out, check_joined, examples_of, teaching_features
from lora_spec.records import AcceptanceEstimate, AcceptanceRecord

KINDS = ("method", "modules", "source")
_ARMS = ("ordinary", "unseen")
_FLAGS = {
    "num_abstained": "is_abstained",
    "num_out_of_distribution": "is_out_of_distribution",
    "num_no_basis": "has_no_basis",
}


def unseen_families(
    features: Sequence[Mapping[str, Any]],
    records: Sequence[AcceptanceRecord],
    *,
    predictions: Mapping[str, Any],
    certification: Mapping[str, Any],
    cost_model: CostModel,
    gate: Mapping[str, Any],
    sources: Mapping[str, str],
    scored: Sequence[str],
    families: Mapping[str, Mapping[str, str]],
    prompt_set: str = "own",
    num_workers: int = 1,
) -> dict[str, Any]:
    """Return the payload of an ``unseen_families`` result.

    Parameters
    ----------
    predictions
        Payload of the ordinary held-out predictions, each without its own source.
    certification
        The limit of the doubt that these gave.
    scored
        Adapters that count; the others teach, and are left out with their family.
    families
        Adapter to family by kind, fixed by design.

    Raises
    ------
    PredictorError, ResultError
        What is joined does not belong together, or a fit fails.
    ConfigError
        The certificate is of other predictions.
    """
    check_joined(features, records)
    settings = gate_settings(gate)
    check_certified(certification, predictions["context"], settings)
    mode = gate["predictor"]["mode"]
    examples = examples_of(teaching_features(features), records, mode=mode, sources=sources, prompt_set=prompt_set)
    ordinary = by_adapter(predictions["predictions"], lambda item: item["adapter"], what="predictions")

    def judge(estimate: AcceptanceEstimate, adapter: str) -> dict[str, Any]:
        commitment = commitment_of(certification, source=sources[adapter])
        verdict = decide(estimate, cost_model, settings=settings, adapter={"name": adapter}, commitment=commitment)
        return {
            "is_abstained": verdict.action == "abstain",
            "is_out_of_distribution": estimate.is_out_of_distribution,
            "has_no_basis": says_nothing(estimate),
            "codes": [code for code, _ in verdict.reasons],
        }

    judged = {
        example.adapter: judge(_ordinary(ordinary, example), example.adapter)
        for example in examples
        if example.adapter in set(scored)
    }
    rows = [
        _row(kind, family, item, judged[item.adapter], item.estimate and judge(item.estimate, item.adapter))
        for kind in KINDS
        for family, items in _left_out(kind, examples, families, predictions, gate, scored, num_workers).items()
        for item in items
    ]
    return {
        "context": {**predictions["context"], "batch_size": settings.headline_batch_size, "level": gate["level"]},
        "kinds": [_summary([row for row in rows if row["kind"] == kind], gate) | {"kind": kind} for kind in KINDS],
        "families": [
            _summary([row for row in rows if (row["kind"], row["family"]) == key], gate)
            | dict(zip(("kind", "family"), key, strict=True))
            for key in dict.fromkeys((row["kind"], row["family"]) for row in rows)
        ],
        "adapters": rows,
    }


def _ordinary(predictions: Mapping[str, Mapping[str, Any]], example: TrainingExample) -> AcceptanceEstimate:
    if example.adapter not in predictions:
        raise ResultError(f"adapter {example.adapter!r} counts and has no ordinary prediction; predict all again")
    found = predictions[example.adapter]
    check_held_out(found, source=example.source, weights={"features and counts": example.adapter_sha256})
    return AcceptanceEstimate.from_dict(found["estimate"])


def _left_out(
    kind: str,
    examples: Sequence[TrainingExample],
    families: Mapping[str, Mapping[str, str]],
    predictions: Mapping[str, Any],
    gate: Mapping[str, Any],
    scored: Sequence[str],
    num_workers: int,
) -> dict[str, list[LeftOut]]:
    return predict_family_left_out(
        examples,
        {name: found[kind] for name, found in families.items() if kind in found},
        gate=gate,
        pair=predictions["context"],
        scored=scored,
        num_workers=num_workers,
    )


def _row(
    kind: str, family: str, item: LeftOut, ordinary: Mapping[str, Any], unseen: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        "kind": kind,
        "family": family,
        "adapter": item.adapter,
        "source": item.source,
        "num_training_adapters": item.num_training_adapters,
        "num_training_sources": item.num_training_sources,
        "ordinary": dict(ordinary),
        "unseen": None if unseen is None else dict(unseen),
        "problem": item.problem,
    }


def _summary(rows: Sequence[Mapping[str, Any]], gate: Mapping[str, Any]) -> dict[str, Any]:
    """Return counts of both arms over adapters that both judge, the paired change, and the answer in words."""
    paired = [row for row in rows if row["unseen"] is not None]
    changes = [int(row["unseen"]["is_abstained"]) - int(row["ordinary"]["is_abstained"]) for row in paired]
    counts = {arm: {name: sum(row[arm][flag] for row in paired) for name, flag in _FLAGS.items()} for arm in _ARMS}
    rise = _rise(paired, changes, gate) if paired else None
    return {
        "num_adapters": len(paired),
        "num_sources": len({row["source"] for row in paired}),
        "num_not_fitted": len(rows) - len(paired),
        **counts,
        "num_newly_abstained": changes.count(1),
        "num_no_longer_abstained": changes.count(-1),
        "rise_of_abstained_share": rise,
        "answer": _answer(counts["ordinary"]["num_abstained"], changes, rise),
    }


def _rise(rows: Sequence[Mapping[str, Any]], changes: Sequence[int], gate: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the change of the abstained share with its interval over sources, None where one source gives none."""
    sources, rule = [row["source"] for row in rows], gate["comparison"]
    if len(set(sources)) < 2:
        return None
    draws = draw_sources(sources, num_draws=rule["num_bootstrap_draws"], seed=rule["seed"])
    return as_dict(draws.resample(lambda values: float(np.mean(values)), changes), gate["level"])


def _answer(num_abstained: int, changes: Sequence[int], rise: Mapping[str, Any] | None) -> str:
    if not changes:
        return "not judged: too few adapters are left to fit on"
    if num_abstained == len(changes):
        return "cannot rise: every one is abstained on already"
    if sum(changes) <= 0:
        return "does not rise"
    if rise is None or rise["lower"] <= 0:
        return "higher, but not beyond noise"
    return "rises"
