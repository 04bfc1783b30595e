"""The rows of figure 3: what the gate was told of every adapter, and what its predictor guesses in other modes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lora_spec.plots.join import Study

Bounds = tuple[float | None, float | None]


def guessed_rows(study: "Study") -> list[dict[str, Any]]:
    """Return one row per adapter and mode; modes that the gate is not given are points without interval or action."""
    rows = []
    for name, prediction in study.predicted.items():
        guess = prediction.acceptance_length(study.standing)
        is_abstained = study.verdicts[name, prediction.mode]["action"] == "abstain"
        judged = {"is_abstained": is_abstained}
        rows.append(_row(study, name, guess.estimate, (guess.lower, guess.upper)) | judged | {"mode": prediction.mode})
    for mode, lengths in study.points.items():
        rows += [_row(study, name, length, (None, None)) | {"mode": mode} for name, length in lengths.items()]
    return rows


def _row(study: "Study", name: str, predicted: float, bounds: Bounds) -> dict[str, Any]:
    truth = study.estimate(name).acceptance_length(study.standing)
    return {
        "adapter": name,
        "source": study.pool[name]["domain"],
        "num_speculative_tokens": study.standing,
        "measured": truth.estimate,
        "measured_lower": truth.lower,
        "measured_upper": truth.upper,
        "predicted": predicted,
        "predicted_lower": bounds[0],
        "predicted_upper": bounds[1],
        "is_abstained": None,
    }
