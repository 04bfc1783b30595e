"""From a speedup per depth to one depth and one action: the rule without any uncertainty."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lora_spec.gate.settings import GateSettings
from lora_spec.records import Action

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """A depth and what choosing it is called."""

    num_speculative_tokens: int
    action: Action


def choose(speedups: Mapping[int, float], settings: GateSettings) -> Choice:
    """Return the choice at these speedups over speculation off.

    Green while the standing depth loses at most ``max_green_loss`` to the best depth up to it and is not harmful;
    otherwise the best shallower depth, amber if it drafts at all, red if it is 0. Ties go to the deeper one, which
    is nearer to what the fleet runs. Depths beyond the standing one do not change the colour.
    """
    standing = settings.standing_num_speculative_tokens
    shallower = max(settings.shallower_depths, key=lambda depth: (speedups[depth], depth))
    best = max(speedups[standing], speedups[shallower])
    is_close = speedups[standing] >= (1 - settings.max_green_loss) * best
    if is_close and not is_harmful(speedups, settings):
        return Choice(standing, "green")
    return Choice(shallower, "amber" if shallower else "red")


def is_harmful(speedups: Mapping[int, float], settings: GateSettings) -> bool:
    """Return whether the standing depth is slower than speculation off by more than the dead band."""
    return speedups[settings.standing_num_speculative_tokens] < 1 - settings.dead_band


def losses_of(depth: int, speedups: Mapping[int, Array], settings: GateSettings) -> Array:
    """Return the share of goodput that a depth loses to the best depth up to the standing one, draw by draw."""
    return 1 - speedups[depth] / np.max([speedups[d] for d in settings.rivals], axis=0)
