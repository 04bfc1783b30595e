"""Depths of all adapters that serve a mix best: what a request saves by drafting less depends on the deepest one.

Take batches of B requests whose deepest drafts m. A step lasts T_m, less s_m(d) for every request that drafts d < m.
A token of an adapter at depth d takes 1 / E(d) steps, in each of which its request uses its share of the step less what
it saves, so that a mix with shares p takes, per token,

    sum_i p_i (T_m / B - s_m(d_i)) / E_i(d_i)

which every adapter makes least on its own. That m is taken whose depths give most tokens per time on batches drawn
from the mix, where an adapter's place in a batch is p_i / E_i: who is slow stays long.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.step_cost import StepCost
from lora_spec.policy.policy_file import Load
from lora_spec.stress.policies.predictor_gated import lengths_of

Array = NDArray[np.float64]
Depths = NDArray[np.int64]

NUM_CONTEXT_TOKENS = 64
_NUM_BATCHES = 64


def best_mix_depths(
    acceptance: Mapping[str | None, tuple[float, ...]],
    shares: Mapping[str | None, float],
    loads: Sequence[Load],
    cost: StepCost,
    *,
    max_depth: int,
    num_context_tokens: int = NUM_CONTEXT_TOKENS,
) -> dict[str | None, tuple[int, ...]]:
    """Return, by adapter, one depth per load; a load stands for batches of its ``max_batch_size``.

    Parameters
    ----------
    shares
        Of the output tokens by adapter; adapters without one count as never asked for.
    num_context_tokens
        Per request, at which steps are costed.
    """
    names = list(acceptance)
    lengths = np.array([lengths_of(acceptance[name], max_depth) for name in names])
    weights = np.array([shares.get(name, 0.0) for name in names])
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

    def own_ms(self, deepest: int) -> Array:
        """Return what a request at each depth up to the deepest uses of a step."""
        others = [deepest] * (self.batch_size - 1)
        full = self.ms([deepest, *others])
        saved = np.array([full - self.ms([depth, *others]) for depth in range(deepest + 1)])
        return full / self.batch_size - saved


def _best_at(lengths: Array, weights: Array, steps: _Steps, max_depth: int) -> Depths:
    options = []
    for deepest in range(max_depth + 1):
        own = steps.own_ms(deepest)
        options.append((own / lengths[:, : deepest + 1]).argmin(axis=1))
    return max(options, key=lambda depths: _goodput(depths, lengths, weights, steps))


def _goodput(depths: Depths, lengths: Array, weights: Array, steps: _Steps) -> float:
    """Return tokens per ms over batches drawn from the mix, the same draws for all depths."""
    tokens = lengths[np.arange(len(lengths)), depths]
    places = (weights / tokens).cumsum()
    uniform = np.random.default_rng(0).random((_NUM_BATCHES, steps.batch_size))
    batches = places.searchsorted(uniform * places[-1])
    return float(tokens[batches].sum() / sum(steps.ms(batch) for batch in depths[batches].tolist()))
