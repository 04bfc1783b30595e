"""Hand-made calibration records for several test folders."""

import math

import numpy as np

from lora_spec.calibration_record import FIRST_CHOICES, SIGNALS, CalibrationPrompt, CalibrationRecord, PartCost
from lora_spec.records import AcceptanceCounts

DEPTH = 4
SHA256 = "a" * 64


def make_prompt(index=0, *, num_positions=20, seed=0, finish_reason="length", **signals):
    """Return a prompt with random signals, or given ones; every verify step drafts at its place in the text."""
    rng = np.random.default_rng([seed, index])
    drawn = {name: rng.uniform(0, math.log(2), num_positions) for name in SIGNALS}
    drawn |= {name: rng.integers(0, 2, num_positions) for name in FIRST_CHOICES}
    values = {**drawn, **signals}
    accepted = rng.integers(0, DEPTH + 1, 6)
    return CalibrationPrompt(
        prompt_id=f"p{index}",
        num_prompt_tokens=7,
        output_token_ids=tuple(int(token) for token in rng.integers(3, 9, num_positions)),
        finish_reason=finish_reason,
        signals={name: tuple(float(np.float32(v)) for v in one) for name, one in values.items()},
        counts_by_depth=tuple(
            AcceptanceCounts.from_accepted_per_step([min(int(a), depth) for a in accepted], depth)
            for depth in range(1, DEPTH + 1)
        ),
    )


def make_record(prompts=None, **changes):
    """Return a record of eight random prompts, or of given ones."""
    fields = {
        "adapter": "json",
        "adapter_sha256": SHA256,
        "domain": "json_extract",
        "role": "calibration",
        "prompts": tuple(prompts or (make_prompt(index) for index in range(8))),
        "cost_by_part": {
            "merge": PartCost(0.5, 0.5),
            "trajectories": PartCost(2.5, 4.0),
            "base_forward": PartCost(1.0, 2.0),
            "drafter_forward": PartCost(0.25, 0.5),
        },
        "other_cores": 0.125,
    }
    return CalibrationRecord(**(fields | changes))
