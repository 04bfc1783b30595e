"""Mixes of adapters with shares of the traffic, and what truth each of them meets. Drawn by seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import ConfigError
from lora_spec.gate.along import equally_likely_positions, lengths_along
from lora_spec.records import AcceptanceEstimate
from lora_spec.traffic.patterns.registry import make_pattern

Array = NDArray[np.float64]

_NUM_POSITIONS = 1000


@dataclass(frozen=True, eq=False)
class Mix:
    """Adapters served together, and what is true of them.

    Parameters
    ----------
    places
        Of each adapter in the list that mixes are drawn from, shape ``(n,)``.
    shares
        Of the output tokens, same shape; add up to 1.
    lengths
        True E_0 to E_K, shape ``(n, K + 1)``.
    draw
        Draw of the step times that is true.
    """

    pattern: str
    places: NDArray[np.int64]
    shares: Array
    lengths: Array
    draw: int


def draw_mixes(
    estimates: Sequence[AcceptanceEstimate],
    *,
    patterns: Sequence[Mapping[str, Any]],
    sizes: Sequence[int],
    num_mixes: int,
    max_depth: int,
    num_time_draws: int,
    seed: int,
) -> list[Mix]:
    """Return ``num_mixes`` mixes of every pattern and size: adapters, who of them is hot, and the truth are drawn.

    Acceptance and step times are known with their intervals only. Each mix meets a truth drawn from these, so that what
    was decided from measured numbers is not judged by the same numbers. An adapter's lengths follow their interval as
    in :mod:`lora_spec.gate.doubt`, all depths together.

    Parameters
    ----------
    estimates
        Measured acceptance of the adapters to draw from.
    patterns
        Entries of ``patterns`` of ``traffic.yaml``: they say how popular the first, second, ... adapter is.

    Raises
    ------
    ConfigError
        A mix would be larger than the list.
    """
    if max(sizes) > len(estimates):
        raise ConfigError(f"mixes of {max(sizes)} adapters from {len(estimates)}: draw smaller ones, or measure more")
    rng = np.random.default_rng(seed)
    return [
        _draw(estimates, pattern, size, max_depth=max_depth, num_time_draws=num_time_draws, rng=rng)
        for pattern in patterns
        for size in sizes
        for _ in range(num_mixes)
    ]


def _draw(
    estimates: Sequence[AcceptanceEstimate],
    pattern: Mapping[str, Any],
    size: int,
    *,
    max_depth: int,
    num_time_draws: int,
    rng: np.random.Generator,
) -> Mix:
    places = rng.choice(len(estimates), size=size, replace=False)
    truths = [_drawn_lengths(estimates[place], max_depth, rng) for place in places]
    return Mix(
        pattern=pattern["name"],
        places=places,
        shares=make_pattern(pattern).shares(size),
        lengths=np.array(truths),
        draw=int(rng.integers(num_time_draws)),
    )


def _drawn_lengths(estimate: AcceptanceEstimate, max_depth: int, rng: np.random.Generator) -> list[float]:
    """Return E_0 to E_K at one place of the interval."""
    position = rng.choice(equally_likely_positions(estimate.level, _NUM_POSITIONS))
    lengths = lengths_along(estimate, np.array([position]), range(max_depth + 1))
    return [float(lengths[depth][0]) for depth in range(max_depth + 1)]
