"""Depths of all adapters that serve a mix best: what a request saves by drafting less depends on the deepest one.

Goodput of a batch is sum E_d / T(depths). For a mix with shares p and batches of B requests whose deepest drafts m, a
request at depth d < m takes s_m(d) off the step, so that goodput is

    B sum_i p_i E_i(d_i) / (T_m - B sum_i p_i s_m(d_i))

Its best depths solve, for the goodput g itself, d_i = argmax_{d <= m} E_i(d) + g s_m(d) (Dinkelbach 1967); g is found
by iterating. That m is taken whose depths do best on batches drawn from the mix.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.step_cost import StepCost
from lora_spec.policy.policy_file import Load
from lora_spec.stress.policies.predictor_gated import lengths_of

Array = NDArray[np.float64]

_NUM_BATCHES = 64
_NUM_CONTEXT_TOKENS = 64
_MOST_ROUNDS = 50


def best_mix_depths(
    acceptance: Mapping[str | None, tuple[float, ...]],
    shares: Mapping[str | None, float],
    loads: Sequence[Load],
    cost: StepCost,
    *,
    max_depth: int,
    num_context_tokens: int = _NUM_CONTEXT_TOKENS,
) -> dict[str | None, tuple[int, ...]]:
    """Return, by adapter, one depth per load; a load stands for batches of its ``max_batch_size``.

    Parameters
    ----------
    shares
        Of the requests by adapter; adapters without one count as never asked for.
    num_context_tokens
        Per request, at which steps are costed.
    """
    names = list(acceptance)
    lengths = np.array([lengths_of(acceptance[name], max_depth) for name in names])
    weights = np.array([shares.get(name, 0.0) for name in names])
    weights = weights / weights.sum()
    columns = [
        _best_at(lengths, weights, _Steps(cost, load.max_batch_size, num_context_tokens), max_depth) for load in loads
    ]
    return {name: tuple(int(column[i]) for column in columns) for i, name in enumerate(names)}


class _Steps:
    """Step times of one batch size, ms."""

    def __init__(self, cost: StepCost, batch_size: int, num_context_tokens: int) -> None:
        self._cost = cost
        self.batch_size = batch_size
        self._context = batch_size * num_context_tokens

    def ms(self, depths: Sequence[int]) -> float:
        return self._cost.step_ms(depths, num_prefill_tokens=0, num_context_tokens=self._context)

    def savings(self, deepest: int) -> tuple[float, Array]:
        """Return T_m, and what one request at each depth up to m takes off it."""
        others = [deepest] * (self.batch_size - 1)
        full = self.ms([deepest, *others])
        return full, np.array([full - self.ms([depth, *others]) for depth in range(deepest + 1)])


def _best_at(lengths: Array, weights: Array, steps: _Steps, max_depth: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(0)
    batches = rng.choice(len(weights), size=(_NUM_BATCHES, steps.batch_size), p=weights)
    options = [_best_below(lengths, weights, steps, deepest) for deepest in range(max_depth + 1)]
    if steps.batch_size == 1:
        alone = np.array([steps.ms([depth]) for depth in range(max_depth + 1)])
        options = [(lengths / alone).argmax(axis=1)]
    return max(options, key=lambda depths: _goodput(depths, lengths, batches, steps))


def _best_below(lengths: Array, weights: Array, steps: _Steps, deepest: int) -> NDArray[np.int64]:
    full, saved = steps.savings(deepest)
    goodput = 0.0
    depths = np.full(len(lengths), deepest)
    for _ in range(_MOST_ROUNDS):
        depths = (lengths[:, : deepest + 1] + goodput * saved).argmax(axis=1)
        rows = np.arange(len(lengths))
        tokens = steps.batch_size * (weights @ lengths[rows, depths])
        lasts = full - steps.batch_size * (weights @ saved[depths])
        if abs(tokens / lasts - goodput) <= 1e-12 * goodput:
            break
        goodput = tokens / lasts
    return depths


def _goodput(depths: NDArray[np.int64], lengths: Array, batches: NDArray[np.int64], steps: _Steps) -> float:
    """Return tokens per ms over the batches; requests stay as long as their tokens take, which is not followed."""
    tokens = sum(lengths[batch, depths[batch]].sum() for batch in batches)
    return float(tokens / sum(steps.ms(depths[batch].tolist()) for batch in batches))
