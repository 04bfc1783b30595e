"""The commit threshold for predicted verdicts: chosen on half of the sources, certified on the other half."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lora_spec.cost_model import CostModel
from lora_spec.errors import ConfigError
from lora_spec.evaluation.selective import (
    Judged,
    certify,
    choose_threshold,
    halve_sources,
    least_certifiable,
    risk_curve,
)
from lora_spec.gate.applicability import check_same_pair
from lora_spec.gate.commitment import certified_context, says_nothing
from lora_spec.gate.doubt import loss_of_choice, violation_probability
from lora_spec.gate.settings import GateSettings, gate_settings
from lora_spec.gate.weighing import weigh
from lora_spec.joins import by_adapter
from lora_spec.predictors.joining import check_held_out
from lora_spec.records import AcceptanceEstimate


@dataclass(frozen=True)
class AbstentionRule:
    """What counts as wrong, how much of it is accepted, and how sure the certificate is; fixed before measuring.

    Parameters
    ----------
    max_loss
        A committed verdict is wrong if its depth loses more than this share of goodput at the measured acceptance.
    max_risk
        The threshold is the largest doubt up to which at most this share of the committed is wrong.
    confidence
        Of the one-sided bound on the share of wrong verdicts.
    seed
        Of the halves.
    """

    max_loss: float
    max_risk: float
    confidence: float
    seed: int


def judge_predictions(
    predictions: Sequence[Mapping[str, Any]],
    measured: Sequence[Mapping[str, Any]],
    *,
    sources: Mapping[str, str],
    cost_model: CostModel,
    settings: GateSettings,
    rule: AbstentionRule,
) -> list[Judged]:
    """Return, for every predicted adapter that was measured, the doubt of its verdict and whether it is wrong.

    An adapter out of distribution has an infinite doubt: whatever its interval says, it holds for other adapters. So
    has one whose interval is the whole possible range: there, a doubt would be made of nothing.

    Parameters
    ----------
    predictions
        Held-out predictions as :func:`lora_spec.predictors.held_out.fit_and_hold_out` gives them; those without a
        left-out source (zero updates) are told from the file, not predicted, and stay out.
    measured
        Summaries with ``adapter``, ``adapter_sha256`` and ``estimate``.
    sources
        The source of every adapter that is to be judged. Others, such as scaled copies, would count a source's
        adapters twice and stay out.

    Raises
    ------
    ConfigError
        No load is given.
    ResultError
        Prediction and measurement are of different weights, or the prediction left out another source.
    """
    batch_size = settings.headline_batch_size
    if batch_size is None:
        raise ConfigError("certifying needs the headline load; give headline_load in gate.yaml")
    truths = by_adapter(measured, lambda item: item["adapter"], what="measured acceptances")
    found = []
    for name, guess in by_adapter(predictions, lambda item: item["adapter"], what="predictions").items():
        if name not in truths or name not in sources or guess["left_out"] is None:
            continue
        weights = {"measured counts": truths[name]["adapter_sha256"]}
        check_held_out(guess, source=sources[name], weights=weights)
        found.append(
            _judge(name, sources[name], guess, truths[name], cost_model, settings, batch_size=batch_size, rule=rule)
        )
    return found


def _judge(
    name: str,
    source: str,
    guess: Mapping[str, Any],
    truth: Mapping[str, Any],
    cost_model: CostModel,
    settings: GateSettings,
    *,
    batch_size: float,
    rule: AbstentionRule,
) -> Judged:
    predicted, real = (AcceptanceEstimate.from_dict(item["estimate"]) for item in (guess, truth))
    # The depth that the verdict itself would choose, were it not to abstain.
    weighing = weigh(predicted, cost_model, settings=settings, batch_size=batch_size)
    depth = weighing.choice.num_speculative_tokens
    doubt = math.inf
    if not (predicted.is_out_of_distribution or says_nothing(predicted)):
        doubt = violation_probability(
            predicted, cost_model, depth, settings=settings, batch_size=batch_size, max_loss=rule.max_loss
        )
    lengths = {k: real.acceptance_length(k).estimate for k in settings.candidate_depths}
    loss = loss_of_choice(depth, lengths, cost_model, settings=settings, batch_size=batch_size)
    return Judged(name, source, doubt, loss > rule.max_loss)


def certify_predictions(
    predictions: Mapping[str, Any],
    measured: Sequence[Mapping[str, Any]],
    *,
    sources: Mapping[str, str],
    cost_model: CostModel,
    gate: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the payload of a ``certification`` result for held-out predictions; ``gate`` holds ``gate.yaml``."""
    settings, rule = gate_settings(gate), AbstentionRule(**gate["abstention"])
    check_same_pair(predictions["context"], cost_model)
    judged = judge_predictions(
        predictions["predictions"], measured, sources=sources, cost_model=cost_model, settings=settings, rule=rule
    )
    return certification(judged, rule) | {"context": certified_context(predictions["context"], settings)}


def certification(judged: Sequence[Judged], rule: AbstentionRule) -> dict[str, Any]:
    """Return thresholds, certificates in both directions, what they commit together, and the whole curve.

    The first direction gives the threshold for adapters from outside. An adapter of the study gets the threshold that
    the other half of the sources chose, so what both directions commit is all held out; that is ``together``, an
    observation over two thresholds and so not a certificate.
    """
    halves = halve_sources(judged, seed=rule.seed)
    directions = [_direction(halves[i], halves[1 - i], rule) for i in (0, 1)]
    return {
        "rule": asdict(rule),
        "threshold": directions[0]["certificate"]["threshold"],
        "directions": directions,
        "together": {kind: _sum(directions, kind) for kind in ("adapters", "sources")},
        "curve": [asdict(point) for point in risk_curve(judged)],
        "least_certifiable": least_certifiable(len(judged), rule.confidence),
        "adapters": [{**asdict(item), "doubt": item.doubt if math.isfinite(item.doubt) else None} for item in judged],
    }


def _sum(directions: Sequence[Mapping[str, Any]], kind: str) -> dict[str, int]:
    parts = [direction["certificate"][kind] for direction in directions]
    return {key: sum(part[key] for part in parts) for key in ("num_committed", "num_wrong")}


def _direction(chosen_on: Sequence[Judged], certified_on: Sequence[Judged], rule: AbstentionRule) -> dict[str, Any]:
    threshold = choose_threshold(chosen_on, max_risk=rule.max_risk)
    certificate = certify(certified_on, threshold, confidence=rule.confidence)
    return {
        "chosen_on": sorted({item.source for item in chosen_on}),
        "certified_on": sorted({item.source for item in certified_on}),
        "certificate": asdict(certificate),
    }
