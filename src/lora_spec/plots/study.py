"""Read the results of a tier into one study. Draws nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lora_spec.cost_model import CostModel
from lora_spec.errors import ResultError
from lora_spec.gate import gate_settings
from lora_spec.plots.join import Study
from lora_spec.records import AcceptanceEstimate, StepTimeCell
from lora_spec.results import read_json, read_result


def load_study(
    *,
    measured: Path,
    predictions: Path,
    cost_model: Path,
    step_times: Path,
    verdicts: Sequence[Path],
    effect_gate: Path,
    settings: Mapping[str, Any],
) -> Study:
    """Return the study behind a tier's figures.

    Parameters
    ----------
    settings
        ``tier``, ``setup`` (target, drafter, engine in words), ``pool`` (rows by adapter name), ``gate`` (gate.yaml).
    """
    summaries = read_result(measured, "measured_acceptance")
    guesses = read_result(predictions, "predictions").payload["predictions"]
    cells = read_result(step_times, "step_time_cells").payload["cells"]
    return Study(
        tier=settings["tier"],
        evidence=summaries.evidence,
        setup=settings["setup"],
        level=settings["gate"]["level"],
        pool=settings["pool"],
        measured={summary["adapter"]: summary for summary in summaries.payload["adapters"]},
        predicted={guess["adapter"]: AcceptanceEstimate.from_dict(guess["estimate"]) for guess in guesses},
        verdicts=_by_adapter_and_mode(verdicts),
        cost_model=CostModel.from_dict(read_result(cost_model, "cost_model").payload),
        cells=[StepTimeCell.from_dict(cell) for cell in cells],
        gate=gate_settings(settings["gate"]),
        effect=read_result(effect_gate, "effect_gate").payload,
        map_batch_sizes=settings["gate"]["map_batch_sizes"],
    )


def _by_adapter_and_mode(paths: Sequence[Path]) -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for path in paths:
        verdict = read_json(path)
        try:
            found[verdict["adapter"]["name"], verdict["mode"]] = verdict
        except (KeyError, TypeError) as error:
            raise ResultError(f"{path}: not a verdict ({error} is missing); run the decide step again") from error
    return found
