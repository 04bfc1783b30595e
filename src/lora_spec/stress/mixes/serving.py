"""A mix served by a policy: at depths fixed before, or as a policy that learns chooses them on the way."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.mix_goodput import goodputs
from lora_spec.cost_model.table_steps import TableSteps
from lora_spec.stress.policies.base import Candidates, Chooser

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ServedMix:
    """A mix at one load.

    Parameters
    ----------
    names
        Of the adapters, as policies know them, shape ``(n,)``.
    lengths
        True E_0 to E_K, shape ``(n, K + 1)``.
    shares
        Of the output tokens.
    steps
        True step times at this load, of an engine that can draft.
    off_in_engine_tax
        Share by which its steps without drafts are longer than those of an engine that cannot.
    """

    names: Sequence[str]
    lengths: Array
    shares: Array
    steps: TableSteps
    off_in_engine_tax: float = 0.0

    def goodput(self, depths: Sequence[int]) -> float:
        """Return tokens per ms with one depth per adapter."""
        return float(goodputs(np.asarray(depths), self.lengths, self.shares, self.steps))


@dataclass(frozen=True)
class Horizon:
    """How much of a mix a policy that learns is judged over, from its first step on; requests of one length."""

    requests_per_adapter: int
    output_tokens: int

    def num_tokens(self, mix: ServedMix) -> int:
        """Return the output tokens of a run."""
        return self.requests_per_adapter * self.output_tokens * len(mix.names)


def best_candidate_goodput(candidates: Candidates, mix: ServedMix, *, horizon: Horizon, seed: int) -> float:
    """Return the tokens per ms of a policy; of several candidates hindsight takes the best."""
    found = []
    for make in candidates.values():
        chooser = make()
        if chooser.is_learning:
            found.append(_learning_goodput(chooser, mix, horizon, np.random.default_rng(seed)))
        else:
            chooser.begin_step(mix.steps.batch_size, 0.0)
            found.append(mix.goodput([chooser.depth(name) for name in mix.names]))
    return max(found)


def _learning_goodput(chooser: Chooser, mix: ServedMix, horizon: Horizon, rng: np.random.Generator) -> float:
    """Return tokens per ms over a run whose acceptances are drawn; each step counts as what is expected at its depths.

    Counted so, a run has the noise of what the policy learns and not that of the tokens themselves. A policy is asked
    for the adapters in the batch, as in an engine; the others count with the depth they had last.
    """
    rates = np.diff(mix.lengths, axis=1).tolist()
    places = [_Place(mix.shares.cumsum(), horizon.output_tokens, rng) for _ in range(mix.steps.batch_size)]
    expected: dict[tuple[int, ...], tuple[float, float]] = {}
    chooser.begin_step(mix.steps.batch_size, 0.0)
    depths = [chooser.depth(name) for name in mix.names]
    num_tokens, now_ms, sum_tokens = 0, 0.0, 0.0
    while num_tokens < horizon.num_tokens(mix):
        chooser.begin_step(mix.steps.batch_size, now_ms / 1e3)
        for adapter in {place.adapter for place in places}:
            depths[adapter] = chooser.depth(mix.names[adapter])
        if (key := tuple(depths)) not in expected:
            expected[key] = _expected(mix, key)
        tokens, ms = expected[key]
        sum_tokens, now_ms = sum_tokens + tokens, now_ms + ms
        for place in places:
            name, depth = mix.names[place.adapter], depths[place.adapter]
            accepted = _accepted(rates[place.adapter][:depth], rng.random()) if depth else 0
            chooser.observe(name, depth, accepted)
            num_tokens += accepted + 1
            place.write(accepted + 1)
    return sum_tokens / now_ms


def _expected(mix: ServedMix, depths: tuple[int, ...]) -> tuple[float, float]:
    """Return the mean tokens and ms of a step while these depths stand."""
    tokens = mix.lengths[np.arange(len(depths)), list(depths)]
    per_step = mix.steps.batch_size / float((mix.shares / tokens).sum())
    return per_step, per_step / mix.goodput(depths)


def _accepted(rates: Sequence[float], luck: float) -> int:
    """Return how many drafts are accepted: the first k all are with probability rates[k - 1]."""
    return sum(luck < rate for rate in rates)


class _Place:
    """One place of the batch: the adapter of the request in it, and the tokens that it still has to write."""

    def __init__(self, cumulated_shares: Array, output_tokens: int, rng: np.random.Generator) -> None:
        self._shares, self._rng, self._output_tokens = cumulated_shares, rng, output_tokens
        self._admit()
        # Places do not start in step with each other.
        self._left = int(rng.integers(1, output_tokens + 1))

    def _admit(self) -> None:
        self.adapter = min(int(self._shares.searchsorted(self._rng.random())), len(self._shares) - 1)
        self._left = self._output_tokens

    def write(self, num_tokens: int) -> None:
        """Take in tokens; a finished request makes room for the next."""
        self._left -= num_tokens
        if self._left <= 0:
            self._admit()
