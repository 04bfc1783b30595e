"""Which adapters to measure again elsewhere: the predicted extremes, and a random part of the rest between them."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lora_spec.errors import ConfigError

Group = Literal["worst", "best", "random"]


@dataclass(frozen=True)
class Chosen:
    """One adapter, the end of the order it was taken from, and what was predicted of it when it was chosen."""

    adapter: str
    source: str
    group: Group
    predicted: float


def choose_extremes(
    predicted: Mapping[str, float],
    sources: Mapping[str, str],
    *,
    num_worst: int,
    num_best: int,
    num_random: int,
    seed: int,
) -> tuple[Chosen, ...]:
    """Return the adapters of least and of most predicted acceptance, and some drawn from all others.

    Nothing but predictions decides, so nothing that was measured can. Equal predictions stand in the order of names;
    the draw depends on the names that are left and on the seed, not on the order in which they were given.

    Parameters
    ----------
    predicted
        Adapter -> predicted acceptance, more is better; each made without the adapter's own source.
    sources
        Adapter -> its source.

    Raises
    ------
    ConfigError
        There are fewer adapters than are to be chosen.
    """
    num_wanted = num_worst + num_best + num_random
    if len(predicted) < num_wanted:
        raise ConfigError(
            f"{num_wanted} adapters are to be confirmed (num_worst {num_worst}, num_best {num_best}, num_random "
            f"{num_random}) and {len(predicted)} are predicted; ask for fewer, or predict more"
        )
    order = sorted(predicted, key=lambda name: (predicted[name], name))
    worst, best = order[:num_worst], order[len(order) - num_best :]
    middle = sorted(set(order) - {*worst, *best})
    drawn = sorted(random.Random(f"confirm-{seed}").sample(middle, num_random), key=order.index)
    groups: tuple[tuple[Group, list[str]], ...] = (("worst", worst), ("random", drawn), ("best", best))
    return tuple(Chosen(name, sources[name], group, predicted[name]) for group, names in groups for name in names)
