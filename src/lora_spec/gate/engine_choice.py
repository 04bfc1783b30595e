"""One engine for a whole fleet: depths that suit the mix, and whether it should have a drafter at all.

A verdict weighs its adapter alone, as if all of a batch drafted alike. In one engine everybody waits for the deepest
drafts of a step, and whoever is off pays for being able to draft: a few adapters that gain little may cost the others
more than that. Asked of the whole mix, by the verdicts' own estimates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lora_spec.cost_model.mix_goodput import best_depths, goodputs
from lora_spec.cost_model.model import CostModel
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.table_steps import TableSteps, spared_token_ms
from lora_spec.gate.fleet_mix import FleetMix, fleet_mix
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.gate.pools import off_in_engine_tax


@dataclass(frozen=True)
class OneEngine:
    """What is known of the steps of an engine that can draft.

    Parameters
    ----------
    off_taxes
        By batch size, share by which a step without drafts is longer than in an engine that cannot draft.
    token_ms
        What a token costs that a request of a step verifies.
    """

    cost_model: CostModel
    off_taxes: Mapping[int, float]
    token_ms: float

    @classmethod
    def of(
        cls, cost_model: CostModel, step_cost: StepCostModel, batch_sizes: Sequence[int], *, num_context_tokens: int
    ) -> "OneEngine":
        """Return it from fitted parts of a step; the context is per request."""
        taxes = {
            size: off_in_engine_tax(step_cost, batch_size=size, num_context_tokens=num_context_tokens).estimate
            for size in batch_sizes
        }
        return cls(cost_model, taxes, spared_token_ms(step_cost))

    def steps(self, batch_size: int, max_depth: int) -> TableSteps:
        """Return its steps at one load."""
        plain = TableSteps.of(self.cost_model, batch_size, max_depth=max_depth, token_ms=self.token_ms)
        return plain.taxed(self.off_taxes[batch_size])


@dataclass(frozen=True)
class DraftingGain:
    """What one engine that obeys a policy makes, over one of the same adapters without a drafter.

    Parameters
    ----------
    goodput_ratio
        Tokens per second of the first over those of the second, every batch place taken. An estimate without interval.
    num_abstained
        Adapters whose verdict abstains: they count by estimates that the gate itself did not trust.
    unknown_adapters
        Adapters that no estimate is known of; the ratio is of the others alone.
    """

    batch_size: int
    goodput_ratio: float
    num_adapters: int
    num_abstained: int
    unknown_adapters: tuple[str, ...] = ()

    @property
    def is_drafter_worth_it(self) -> bool:
        """Return whether the engine is better with a drafter."""
        return self.goodput_ratio >= 1


def drafting_gain(
    verdicts: Sequence[FleetVerdict],
    depths: Mapping[str, int],
    engine: OneEngine,
    *,
    batch_size: int,
    shares: Mapping[str, float] | None = None,
) -> DraftingGain | None:
    """Return the gain of drafting at one load; None where nothing is known of any adapter that has traffic.

    Parameters
    ----------
    depths
        What the policy gives each adapter at this load.
    shares
        Output tokens by adapter (:func:`lora_spec.gate.fleet_mix.fleet_mix`).
    """
    mix = fleet_mix(verdicts, depths, engine.cost_model, batch_size=batch_size, shares=shares)
    if mix is None:
        return None
    steps = engine.steps(batch_size, mix.lengths.shape[1] - 1)
    ours = float(goodputs(mix.depths, mix.lengths, mix.shares, steps))
    untaxed_off_ms = steps.alike_ms[0] / (1 + engine.off_taxes[batch_size])
    return DraftingGain(
        batch_size=batch_size,
        goodput_ratio=float(ours * untaxed_off_ms / batch_size),
        num_adapters=len(mix.names),
        num_abstained=int(mix.is_abstained.sum()),
        unknown_adapters=mix.unknown,
    )


def drafting_gains(
    verdicts: Sequence[FleetVerdict],
    depths: Mapping[str, Sequence[int]],
    engine: OneEngine,
    *,
    batch_sizes: Sequence[int],
    shares: Mapping[str, float] | None = None,
) -> tuple[DraftingGain, ...]:
    """Return :func:`drafting_gain` at every load at which something is known; ``depths`` are by adapter and load."""
    found = (
        drafting_gain(
            verdicts, {name: chosen[place] for name, chosen in depths.items()}, engine, batch_size=size, shares=shares
        )
        for place, size in enumerate(batch_sizes)
    )
    return tuple(gain for gain in found if gain is not None)


def gain_at(gains: Sequence[DraftingGain], batch_size: float) -> DraftingGain | None:
    """Return the gain at one load; None where it is not known."""
    return next((gain for gain in gains if gain.batch_size == batch_size), None)


def depths_for_mix(
    verdicts: Sequence[FleetVerdict],
    depths: Mapping[str, Sequence[int]],
    engine: OneEngine,
    *,
    batch_sizes: Sequence[int],
    shares: Mapping[str, float] | None = None,
) -> dict[str, list[int]]:
    """Return depths by load that make most tokens of the mix, none deeper than the verdicts alone say.

    Where its verdict abstains an adapter keeps its depth, and so does one without an estimate or traffic. No adapter
    drafts deeper than at an emptier load.

    Parameters
    ----------
    depths
        By adapter, what its verdict alone gives at each load.
    batch_sizes
        The loads, rising.
    """
    chosen: dict[str, list[int]] = {v.name: [] for v in verdicts}
    for place, size in enumerate(batch_sizes):
        most = {name: min([found[place], *chosen[name][-1:]]) for name, found in depths.items()}
        mix = fleet_mix(verdicts, most, engine.cost_model, batch_size=size, shares=shares)
        best = {} if mix is None else _best(mix, engine.steps(size, mix.lengths.shape[1] - 1))
        for name, found in chosen.items():
            found.append(best.get(name, most[name]))
    return chosen


def _best(mix: FleetMix, steps: TableSteps) -> dict[str, int]:
    floors = np.where(mix.is_abstained, mix.depths, 0)
    best = best_depths(mix.lengths, mix.shares, steps, floors=floors, ceilings=mix.depths)
    return dict(zip(mix.names, best.tolist(), strict=True))
