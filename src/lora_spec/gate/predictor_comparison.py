"""Predictors and nulls scored on the same adapters, with intervals, paired differences and a permutation test.

Scores are over adapters that were trained separately. Scaled copies, random and zero updates and repeats of a recipe
with another seed never count: they resemble their parent, and would be counted as news. They may teach, except about
their parent's source, which is left out with them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from lora_spec.calibration_record import CalibrationRecord
from lora_spec.cost_model import CostModel
from lora_spec.errors import PredictorError
from lora_spec.evaluation import Resampled, draw_sources, permutation_p_value
from lora_spec.features.calibration import with_calibrations
from lora_spec.gate.comparison_scores import ScoredAdapters, as_dict, resample
from lora_spec.gate.net_loss import Question, ask, base_counts, fix_load
from lora_spec.gate.probe_curve import probe_curve
from lora_spec.gate.settings import gate_settings
from lora_spec.predictors.columns import BASE_ABLATION
from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.held_out_comparison import Contender, HeldOutComparison, compare_held_out, measured_mismatch
from lora_spec.predictors.joining import teaching_features
from lora_spec.records import AcceptanceRecord

COMPARED = ("spearman", "auroc", "length_error")
"""Scores that are compared between contenders; the first two are better high, the error better low."""
_PROMPT_SET = "own"
_FIRST_MODE = "checkpoint_only"


def compare_predictors(
    features: Sequence[Mapping[str, Any]],
    records: Sequence[AcceptanceRecord],
    cost_model: CostModel,
    *,
    gate: Mapping[str, Any],
    sources: Mapping[str, str],
    scored: Sequence[str],
    context: Mapping[str, Any],
    probes: Sequence[CalibrationRecord] = (),
    num_workers: int = 1,
) -> dict[str, Any]:
    """Return the payload of a ``predictor_comparison`` result.

    Parameters
    ----------
    gate
        The values of ``gate.yaml``.
    scored
        Names of the adapters that count.
    context
        What the numbers hold for: target, drafter, engine.
    probes
        Calibration records; ``checkpoint_calib`` sees the largest number of prompts that the gate names.
    num_workers
        Processes that fit; the numbers do not depend on it.

    Raises
    ------
    PredictorError
        Too few sources are left, or a contender cannot guess.
    ResultError
        What is joined does not belong together, or base counts are missing.
    MeasurementError
        A probe holds fewer prompts than the gate names.
    """
    _check_enough(features, sources, scored, gate["comparison"]["min_sources"])
    probed = with_calibrations(features, probes, max(gate["comparison"]["num_calibration_prompts"]))
    found = compare_held_out(
        probed, records, gate=gate, sources=sources, prompt_set=_PROMPT_SET, num_workers=num_workers
    )
    examples = tuple(example for example in found.examples if example.adapter in set(scored))
    question = _question(examples, records, cost_model, gate)
    truth = _truth(examples, question, gate)
    resampled = {_key(contender): resample(contender, truth) for contender in found.contenders}
    return {
        "context": {**context, **_context(found, truth, scored, gate)},
        "net_loss": {
            **asdict(question),
            "is_scored": question.is_scored,
            "base_prompt_set": gate["comparison"]["base_prompt_set"],
        },
        "contenders": [_scores(contender, resampled[_key(contender)], truth, gate) for contender in found.contenders],
        "differences": _differences(found.contenders, resampled, gate["level"]),
        "base_ablation": _ablation(found, resampled, truth, gate["level"]),
        "adapters": _adapters(found, truth, question, gate["standing_num_speculative_tokens"]),
        "lacking_modes": dict(found.lacking),
        "probe_curve": probe_curve(
            found,
            truth,
            features=features,
            records=records,
            probes=probes,
            gate=gate,
            sources=sources,
            prompt_set=_PROMPT_SET,
        ),
    }


def _key(contender: Contender) -> tuple[str, str | None]:
    return contender.predictor, contender.mode


def _check_enough(
    features: Sequence[Mapping[str, Any]], sources: Mapping[str, str], scored: Sequence[str], min_sources: int
) -> None:
    names = {item["adapter"]["name"] for item in teaching_features(features)} & set(scored)
    found = {sources[name] for name in names if name in sources}
    if len(found) < min_sources:
        raise PredictorError(
            f"{len(names)} separately trained adapters of {len(found)} sources: comparing predictors needs "
            f"{min_sources} sources (comparison.min_sources in gate.yaml); measure more"
        )


def _length(example: TrainingExample, depth: int) -> float:
    return example.counts_by_depth[depth - 1].acceptance_length


def _question(
    examples: Sequence[TrainingExample],
    records: Sequence[AcceptanceRecord],
    cost_model: CostModel,
    gate: Mapping[str, Any],
) -> Question:
    depth, rule = gate["standing_num_speculative_tokens"], gate["comparison"]
    base = base_counts(records, prompt_set=rule["base_prompt_set"], depth=depth)
    return ask(
        fix_load(base.acceptance_length, cost_model, gate_settings(gate)),
        [_length(example, depth) for example in examples],
        min_prevalence=rule["min_prevalence"],
        max_prevalence=rule["max_prevalence"],
    )


def _truth(examples: tuple[TrainingExample, ...], question: Question, gate: Mapping[str, Any]) -> ScoredAdapters:
    depth, rule = gate["standing_num_speculative_tokens"], gate["comparison"]
    lengths = np.array([_length(example, depth) for example in examples])
    sources = [example.source for example in examples]
    return ScoredAdapters(
        examples=examples,
        lengths=lengths,
        rates=np.array([example.counts_by_depth[-1].acceptance_rate_per_pos for example in examples]),
        mismatches=np.array([measured_mismatch(example, depth) for example in examples], dtype=np.float64),
        is_net_loss=np.array(question.answers(lengths)) if question.is_scored else None,
        draws=draw_sources(sources, num_draws=rule["num_bootstrap_draws"], seed=rule["seed"]),
    )


def _scores(
    contender: Contender, resampled: Mapping[str, Resampled], truth: ScoredAdapters, gate: Mapping[str, Any]
) -> dict[str, Any]:
    rule, score = gate["comparison"], partial(as_dict, level=gate["level"])
    lengths = [contender.guesses[name].acceptance_length for name in truth.names]
    p_value = permutation_p_value(
        lengths,
        truth.lengths,
        sources=truth.sources,
        num_permutations=rule["num_permutations"],
        seed=rule["seed"],
    )
    return {
        "predictor": contender.predictor,
        "mode": contender.mode,
        "is_null": contender.is_null,
        "sees": contender.sees,
        "spearman": score(resampled.get("spearman")),
        "permutation_p": p_value if contender.orders_adapters else None,
        "auroc": score(resampled.get("auroc")),
        "mismatch_spearman": score(resampled.get("mismatch_spearman")),
        "length_error": score(resampled["length_error"]),
        "calibration_error": score(resampled.get("calibration_error")),
        "guesses": {name: asdict(guess) for name, guess in contender.guesses.items()},
    }


def _differences(
    contenders: Sequence[Contender], resampled: Mapping[tuple[str, str | None], Mapping[str, Resampled]], level: float
) -> list[dict[str, Any]]:
    """Return each predictor minus every null, and minus itself in the mode that sees the tensors alone."""
    found = []
    for contender in contenders:
        for rival in contenders:
            is_same = rival.predictor == contender.predictor and rival.mode == _FIRST_MODE != contender.mode
            if contender.is_null or not (rival.is_null or is_same):
                continue
            left, right = resampled[_key(contender)], resampled[_key(rival)]
            found += [
                {
                    "predictor": contender.predictor,
                    "mode": contender.mode,
                    "against": rival.predictor,
                    "against_mode": rival.mode,
                    "score": name,
                    "difference": as_dict(left[name].minus(right[name]), level),
                }
                for name in COMPARED
                if name in left and name in right
            ]
    return found


def _ablation(
    found: HeldOutComparison,
    resampled: Mapping[tuple[str, str | None], Mapping[str, Resampled]],
    truth: ScoredAdapters,
    level: float,
) -> list[dict[str, Any]]:
    """Return Spearman of each predictor step by step, as the base profile gives it more, and what each step gains."""
    rows = []
    for middle in found.with_moments:
        name = middle.predictor
        tensors, margins = (resampled[name, kind.mode] for kind in (BASE_ABLATION["tensors"], BASE_ABLATION["margins"]))
        before = None
        for step, scores in (("tensors", tensors), ("moments", resample(middle, truth)), ("margins", margins)):
            now = scores["spearman"]
            gain = None if before is None else as_dict(now.minus(before), level)
            rows.append({"predictor": name, "step": step, "spearman": as_dict(now, level), "gain": gain})
            before = now
    return rows


def _context(
    found: HeldOutComparison, truth: ScoredAdapters, scored: Sequence[str], gate: Mapping[str, Any]
) -> dict[str, Any]:
    rule, sees_probes = gate["comparison"], "checkpoint_calib" not in found.lacking
    return {
        "prompt_set": _PROMPT_SET,
        "num_speculative_tokens": gate["standing_num_speculative_tokens"],
        "level": gate["level"],
        "num_scored_adapters": len(truth.examples),
        "num_sources": len(set(truth.sources)),
        "num_teaching_adapters": len(found.examples),
        "num_calibration_prompts": max(rule["num_calibration_prompts"]) if sees_probes else None,
        "num_bootstrap_draws": rule["num_bootstrap_draws"],
        "num_permutations": rule["num_permutations"],
        "not_scored": sorted(set(scored) - set(truth.names)),
    }


def _adapters(found: HeldOutComparison, truth: ScoredAdapters, question: Question, depth: int) -> list[dict[str, Any]]:
    """Return the truth of every adapter that was guessed, and whether it counts."""
    counted = set(truth.names)
    lengths = [_length(example, depth) for example in found.examples]
    answers = question.answers(lengths) or [None] * len(lengths)
    return [
        {
            "adapter": example.adapter,
            "adapter_sha256": example.adapter_sha256,
            "source": example.source,
            "is_scored": example.adapter in counted,
            "acceptance_length": length,
            "acceptance_rate_per_pos": list(example.counts_by_depth[-1].acceptance_rate_per_pos),
            "mismatch": measured_mismatch(example, depth),
            "is_net_loss": answer,
        }
        for example, length, answer in zip(found.examples, lengths, answers, strict=True)
    ]
