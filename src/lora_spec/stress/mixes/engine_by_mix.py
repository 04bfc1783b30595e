"""Verdicts in one engine whose depths, and whether it drafts at all, are for the mix, as in ``lora-spec policy``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lora_spec.gate.engine_choice import OneEngine, depths_for_mix, drafting_gain
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
    policy
        Depths of the verdicts alone.
    batch_sizes
        Loads of the policy, rising.
    """

    verdicts: Mapping[str, FleetVerdict]
    policy: Policy
    engine: OneEngine
    batch_sizes: Sequence[int]

    def depths(self, mix: ServedMix) -> dict[str, int]:
        """Return the depths for a mix."""
        size = mix.steps.batch_size
        place = list(self.batch_sizes).index(size)
        alone = {name: [self.policy.depths_of(name)[place]] for name in mix.names}
        found = depths_for_mix(self._of(mix), alone, self.engine, batch_sizes=[size], shares=_shares(mix))
        return {name: depths[0] for name, depths in found.items()}

    def is_drafter_worth_it(self, mix: ServedMix, depths: Mapping[str, int]) -> bool:
        """Return whether the engine of a mix gets a drafter; it does where nothing is known."""
        size = mix.steps.batch_size
        gain = drafting_gain(self._of(mix), depths, self.engine, batch_size=size, shares=_shares(mix))
        return gain is None or gain.is_drafter_worth_it

    def _of(self, mix: ServedMix) -> list[FleetVerdict]:
        return [self.verdicts[name] for name in mix.names]


def _shares(mix: ServedMix) -> dict[str, float]:
    return dict(zip(mix.names, mix.shares.tolist(), strict=True))
