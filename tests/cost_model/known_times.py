"""Step times with a known law: T_K(B) = (c0 + d0 K) + (c1 + d1 K) B."""

import numpy as np

from lora_spec.records import AcceptanceEstimate, Interval
from lora_spec.step_time_cell import StepTimeCell

DEPTHS = (0, 1, 2, 3, 4)
BATCH_SIZES = (1, 4, 16)
ENGINE = {"name": "fake", "version": "1"}


def law_ms(depth: int, batch_size: float) -> float:
    """Return T_K(B)."""
    return (10 + 2 * depth) + (1 + 0.5 * depth) * batch_size


def make_cells(
    *, batch_sizes=BATCH_SIZES, trials: int = 3, noise: float = 0.0, drift=(1.0, 1.0, 1.0), steps: int = 21, seed=0
) -> list[StepTimeCell]:
    """Return cells that follow the law; ``drift`` multiplies whole trials, ``noise`` is relative per step."""
    rng = np.random.default_rng(seed)
    return [
        StepTimeCell(
            depth,
            batch_size,
            trial,
            8,
            64,
            tuple(law_ms(depth, batch_size) * drift[trial] * np.exp(noise * rng.standard_normal(steps))),
            0.1,
            0.2,
        )
        for trial in range(trials)
        for depth in DEPTHS
        for batch_size in batch_sizes
    ]


def estimate_of(rates, *, spread: float = 0.0, level: float = 0.9) -> AcceptanceEstimate:
    """Return an estimate with E_K +- spread, clipped to the possible range."""
    lengths = 1 + np.cumsum(rates)
    return AcceptanceEstimate(
        "measured",
        tuple(map(float, rates)),
        tuple(map(float, rates)),
        tuple(map(float, rates)),
        level,
        tuple(
            Interval(float(e), max(1.0, float(e) - spread), min(k + 1.0, float(e) + spread), level)
            for k, e in enumerate(lengths, start=1)
        ),
    )
