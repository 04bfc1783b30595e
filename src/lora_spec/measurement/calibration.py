"""From what the readers saw along a text to the prompt's place in a calibration record."""

from collections.abc import Mapping, Sequence

import numpy as np

from lora_spec.calibration_record import CalibrationPrompt
from lora_spec.engines import Trajectory
from lora_spec.engines.base import steps_of_matches
from lora_spec.errors import MeasurementError

MIN_READER_AGREEMENT = 0.9
"""Least share of tokens that the adapted reader would have said too. In bfloat16 it differs from the writing engine at
one token in fifty or so, where two tokens are nearly equal; a reader with other weights differs far more often."""


def calibration_prompt(
    trajectory: Trajectory, signals: Mapping[str, Sequence[float]], *, max_depth: int
) -> CalibrationPrompt:
    """Return the record of one text.

    Parameters
    ----------
    signals
        Values at every output and overrun position. What lies past the end only completes the last verify steps: it
        enters the counts, as in ``replay``, and no signal.
    """
    num_positions = len(trajectory.output_token_ids)
    matches = np.array(signals["is_drafter_first"]) == 1
    return CalibrationPrompt(
        prompt_id=trajectory.prompt_id,
        num_prompt_tokens=len(trajectory.prompt_token_ids),
        output_token_ids=trajectory.output_token_ids,
        finish_reason=trajectory.finish_reason,
        signals={name: tuple(map(float, values[:num_positions])) for name, values in signals.items()},
        counts_by_depth=tuple(
            steps_of_matches(matches, num_positions, depth).counts() for depth in range(1, max_depth + 1)
        ),
    )


def check_readers(prompts: Sequence[CalibrationPrompt], adapter: str, *, has_update: bool) -> None:
    """Raise MeasurementError where the adapted reader does not have the weights that wrote the texts."""
    num_positions = sum(prompt.num_positions for prompt in prompts)
    agreement = sum(prompt.sum("is_adapted_first") for prompt in prompts) / num_positions
    if agreement < MIN_READER_AGREEMENT:
        raise MeasurementError(
            f"adapter {adapter!r}: read again, the adapted target would have said only {agreement:.0%} of its own "
            f"{num_positions} tokens: writer and reader have different weights; probe it again"
        )
    if has_update and not any(prompt.sum("kl_base_nats") for prompt in prompts):
        raise MeasurementError(
            f"adapter {adapter!r}: base and adapted target agree in every number, but its update is not zero: it was "
            "not merged; probe it again"
        )
