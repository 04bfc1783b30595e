"""Estimates and cost models whose verdicts can be worked out by hand."""

import numpy as np

from lora_spec.cost_model import CostModel
from lora_spec.gate import GateSettings
from lora_spec.records import AcceptanceEstimate, Interval

DEPTHS = (0, 1, 2, 3, 4)
SETTINGS = GateSettings(
    standing_num_speculative_tokens=3, candidate_depths=DEPTHS, headline_batch_size=1, max_interval_loss=0.05
)
CONTEXT = {"lora_rank": 8, "num_trials": 3}

# T_K / T_0 by batch size: drafting is cheap alone and dear in a crowd.
RATIOS = {1: (1.0, 1.2, 1.4, 1.6, 1.8), 16: (1.0, 1.7, 2.3, 2.9, 3.5)}


def cost_model(ratios=RATIOS, *, noise: float = 0.0) -> CostModel:
    """Return step times of 100 ms without speculation and these ratios to it; noise is relative, per draw."""
    batch_sizes = tuple(ratios)
    median = 100 * np.array([[ratios[b][k] for b in batch_sizes] for k in DEPTHS])
    draws = median * np.exp(noise * np.random.default_rng(0).standard_normal((200, *median.shape)))
    return CostModel(DEPTHS, batch_sizes, median, draws, CONTEXT)


def estimate(rates, *, below: float = 0.0, above: float = 0.0, **fields) -> AcceptanceEstimate:
    """Return an estimate with a_k = rates and E_K from E_K - below to E_K + above, inside what is possible."""
    point = tuple(map(float, rates))
    lengths = [
        Interval(float(e), max(1.0, float(e) - below), min(k + 1.0, float(e) + above), 0.9)
        for k, e in enumerate(1 + np.cumsum(rates), start=1)
    ]
    return AcceptanceEstimate(
        **({"mode": "checkpoint_only"} | fields),
        acceptance_rate_per_pos=point,
        lower=point,
        upper=point,
        level=0.9,
        acceptance_length_by_depth=tuple(lengths),
    )


def geometric(alpha: float) -> np.ndarray:
    """Return a_k = alpha^k."""
    return alpha ** np.arange(1, 5)
