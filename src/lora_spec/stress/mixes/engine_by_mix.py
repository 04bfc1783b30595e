"""Verdicts in an engine that has a drafter only where the whole mix gains by it, as ``lora-spec policy`` advises."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lora_spec.cost_model.model import CostModel
from lora_spec.gate.engine_choice import drafting_gain
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.policy.policy_file import Policy
from lora_spec.stress.mixes.serving import ServedMix


@dataclass(frozen=True)
class EngineByMix:
    """What an operator knows who is told verdicts, step times and the shares of the traffic, but no truth of a mix.

    Parameters
    ----------
    verdicts
        By adapter.
    batch_sizes
        Loads of the policy, rising.
    off_taxes
        By batch size.
    token_ms
        What a verified token is thought to cost.
    """

    verdicts: Mapping[str, FleetVerdict]
    policy: Policy
    cost_model: CostModel
    batch_sizes: Sequence[int]
    off_taxes: Mapping[int, float]
    token_ms: float

    def is_drafter_worth_it(self, mix: ServedMix) -> bool:
        """Return whether the engine of a mix gets a drafter; it does where nothing is known."""
        size = mix.steps.batch_size
        place = list(self.batch_sizes).index(size)
        gain = drafting_gain(
            [self.verdicts[name] for name in mix.names],
            {name: self.policy.depths_of(name)[place] for name in mix.names},
            self.cost_model,
            batch_size=size,
            off_tax=self.off_taxes[size],
            token_ms=self.token_ms,
            shares=dict(zip(mix.names, mix.shares.tolist(), strict=True)),
        )
        return gain is None or gain.is_drafter_worth_it
