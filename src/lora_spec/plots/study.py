"""Read the results of a tier into one study, and make all its tables or none. Draws nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lora_spec.cost_model.payload import read_cost_model
from lora_spec.errors import ResultError
from lora_spec.gate import gate_settings
from lora_spec.gate.payload import read_certification, read_effect_gate, read_verdict
from lora_spec.gate.predictor_comparison_payload import read_comparison
from lora_spec.joins import check_same_weights
from lora_spec.measurement.payload import read_measured, read_step_times
from lora_spec.plots.join import TABLES, Study
from lora_spec.plots.schemas import (
    COST_MODEL_FIT,
    DECISION_MAP,
    PAIRED_EFFECT,
    PREDICTED_VS_MEASURED,
    RANK_DISAGREEMENT,
    RISK_COVERAGE,
    VERDICT_TABLE,
)
from lora_spec.predictors.payload import read_predictions
from lora_spec.records import AcceptanceEstimate

_SCHEMAS = {
    **{
        schema.name: schema
        for schema in (
            PAIRED_EFFECT,
            PREDICTED_VS_MEASURED,
            RANK_DISAGREEMENT,
            DECISION_MAP,
            COST_MODEL_FIT,
            RISK_COVERAGE,
        )
    },
    "verdicts": VERDICT_TABLE,
}


def load_study(
    *,
    measured: Path,
    predictions: Path,
    cost_model: Path,
    step_times: Path,
    verdicts: Sequence[Path],
    effect_gate: Path,
    certifications: Sequence[Path],
    settings: Mapping[str, Any],
    comparison: Path | None = None,
) -> Study:
    """Return the study behind a tier's figures.

    Parameters
    ----------
    settings
        ``tier``, ``setup`` (target, drafter, engine in words), ``pool`` (rows by adapter name), ``gate`` (gate.yaml).
    comparison
        Where predictors were compared, it tells what the gate's predictor guesses in the other modes.

    Raises
    ------
    ResultError
        A file is not what it should be, or the files are not of the same adapters.
    """
    summaries, guessed = read_measured(measured), read_predictions(predictions)
    _check_once(measured, [summary["adapter"] for summary in summaries.payload["adapters"]])
    _check_once(predictions, [guess["adapter"] for guess in guessed.payload["predictions"]])
    timed = read_step_times(step_times)
    study = Study(
        tier=settings["tier"],
        evidence=summaries.evidence,
        setup=settings["setup"],
        level=settings["gate"]["level"],
        pool=settings["pool"],
        measured={summary["adapter"]: summary for summary in summaries.payload["adapters"]},
        predicted={
            guess["adapter"]: AcceptanceEstimate.from_dict(guess["estimate"])
            for guess in guessed.payload["predictions"]
        },
        verdicts=_by_adapter_and_mode(verdicts, settings["tier"]),
        cost_model=read_cost_model(cost_model),
        cells=timed.cells,
        cpu_features=timed.cpu_features,
        gate=gate_settings(settings["gate"]),
        effect=read_effect_gate(effect_gate),
        certifications=[read_certification(path).payload for path in certifications],
        map_batch_sizes=settings["gate"]["map_batch_sizes"],
        points={} if comparison is None else _points(comparison, summaries.payload["adapters"], guessed.payload),
    )
    _check_same_adapters(study, measured, predictions, mode=guessed.payload["context"]["mode"])
    return study


def tables_of(study: Study) -> dict[str, pd.DataFrame]:
    """Return every table by name, each checked against its declared columns.

    Raises
    ------
    ResultError
        A table does not hold what it declares; none is returned then.
    """
    return {name: _SCHEMAS[name].check(make(study)) for name, make in TABLES.items()}


def _points(
    path: Path, summaries: Sequence[Mapping[str, Any]], guessed: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """Return the acceptance lengths that the gate's predictor guesses in modes other than the gate's own."""
    compared, context = read_comparison(path).payload, guessed["context"]
    weights = {summary["adapter"]: summary["adapter_sha256"] for summary in summaries}
    for adapter in compared["adapters"]:
        if (name := adapter["adapter"]) not in weights:
            raise ResultError(f"{path}: adapter {name!r} was not measured; compare the predictors again")
        check_same_weights(name, {"comparison": adapter["adapter_sha256"], "measured counts": weights[name]})
    chosen = [item for item in compared["contenders"] if item["predictor"] == context["predictor"]]
    return {
        item["mode"]: {name: guess["acceptance_length"] for name, guess in item["guesses"].items()}
        for item in chosen
        if item["mode"] not in (None, context["mode"])
    }


def _check_once(path: Path, names: Sequence[str]) -> None:
    if not names:
        raise ResultError(f"{path}: holds no adapter; run its step again")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ResultError(f"{path}: adapter {twice[0]!r} stands there twice; run its step again")


def _check_same_adapters(study: Study, measured: Path, predictions: Path, *, mode: str) -> None:
    """Refuse a study in which an adapter has one part and lacks another."""
    for name, summary in study.measured.items():
        lacking = [f"a verdict in mode {m}" for m in ("measured", mode) if (name, m) not in study.verdicts]
        lacking += [] if name in study.pool else ["a row of the pool in --settings"]
        lacking += [] if summary["effects"] else ["paired effects"]
        if lacking:
            raise ResultError(f"{measured}: adapter {name!r} lacks {' and '.join(lacking)}; run the missing steps")
    if strangers := sorted(set(study.predicted) - set(study.measured)):
        raise ResultError(f"{predictions}: adapter {strangers[0]!r} was predicted but not measured; measure it")
    modes = {"measured", *(item["context"]["mode"] for item in study.certifications)}
    expected = {(name, m) for name in study.measured for m in modes}
    if others := sorted(set(study.verdicts) - expected):
        name, other = others[0]
        raise ResultError(f"verdict on {name!r} in mode {other}: {measured} knows no such adapter; remove the verdict")


def _by_adapter_and_mode(paths: Sequence[Path], tier: str) -> dict[tuple[str, str], dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in paths:
        verdict = read_verdict(path, tier=tier)
        key = verdict["adapter"]["name"], verdict["mode"]
        if key in found:
            raise ResultError(f"{path}: a second verdict on {key[0]!r} in mode {key[1]}; pass each once")
        found[key] = verdict
    return found
