"""Adapters predicted without any adapter of their family: neither of their source, nor of the family."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lora_spec.errors import PredictorError
from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.fitting import fit_predictor
from lora_spec.predictors.prepared import prepare
from lora_spec.predictors.settings import fit_settings, variant_options
from lora_spec.predictors.workers import run_all
from lora_spec.records import AcceptanceEstimate


@dataclass(frozen=True)
class LeftOut:
    """One adapter of a left-out family; without an estimate, ``problem`` says why what is left cannot be fitted on."""

    adapter: str
    source: str
    num_training_adapters: int
    num_training_sources: int
    estimate: AcceptanceEstimate | None
    problem: str | None


def predict_family_left_out(
    examples: Sequence[TrainingExample],
    family_of: Mapping[str, str],
    *,
    gate: Mapping[str, Any],
    pair: Mapping[str, str],
    scored: Sequence[str],
    num_workers: int = 1,
) -> dict[str, list[LeftOut]]:
    """Return, for every family, its scored adapters as predicted without it and without their source.

    Parameters
    ----------
    family_of
        Adapter to family; adapters without one teach and are not predicted.
    pair
        ``target_model`` and ``draft_model``.
    scored
        Adapters that are predicted; the others of a family are left out with it, and teach in other families.
    """
    fit = partial(
        fit_predictor,
        gate["predictor"]["model"],
        settings=fit_settings(gate),
        options=variant_options(gate),
        target_model=pair["target_model"],
        draft_model=pair["draft_model"],
    )
    groups = _groups(examples, family_of, set(scored))
    calls = [(_predict, (fit, inside, outside)) for _, inside, outside in groups]
    found: dict[str, list[LeftOut]] = {}
    for (family, _, _), answers in zip(groups, run_all(calls, num_workers=num_workers), strict=True):
        found.setdefault(family, []).extend(answers)
    return found


def _groups(
    examples: Sequence[TrainingExample], family_of: Mapping[str, str], scored: set[str]
) -> list[tuple[str, list[TrainingExample], list[TrainingExample]]]:
    """Return (family, what teaches, what is predicted); sources that leave the same adapters share one fit."""
    groups: dict[tuple[str, tuple[str, ...]], tuple[list[TrainingExample], list[TrainingExample]]] = {}
    for example in examples:
        family = family_of.get(example.adapter)
        if family is None or example.adapter not in scored:
            continue
        inside = [e for e in examples if e.source != example.source and family_of.get(e.adapter) != family]
        key = (family, tuple(e.adapter for e in inside))
        groups.setdefault(key, (inside, []))[1].append(example)
    return [(family, inside, outside) for (family, _), (inside, outside) in sorted(groups.items())]


def _predict(fit: Any, inside: Sequence[TrainingExample], outside: Sequence[TrainingExample]) -> list[LeftOut]:
    prepared, problem = None, None
    try:
        prepared = prepare(fit(inside))
    except PredictorError as err:
        # A family may be nearly the whole pool: that nothing can be learnt without it is an answer, and is counted.
        problem = str(err)
    return [
        LeftOut(
            adapter=example.adapter,
            source=example.source,
            num_training_adapters=len(inside),
            num_training_sources=len({other.source for other in inside}),
            estimate=None if prepared is None else prepared.predict(example.columns),
            problem=problem,
        )
        for example in outside
    ]
