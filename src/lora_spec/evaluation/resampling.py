"""Whole sources drawn with replacement, once; every statistic and every difference is then taken on the same draws.

References: Davison and Hinkley 1997, section 3.8 (clusters are resampled, not their members).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lora_spec.errors import ConfigError
from lora_spec.percentiles import percentile_interval
from lora_spec.records import Interval

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Statistic = Callable[..., float | None]


@dataclass(frozen=True, eq=False)
class SourceDraws:
    """Row indices of each draw. Adapters of one source are not independent, so a source is drawn whole or not at all.

    Parameters
    ----------
    num_rows
        Rows that the statistics are of.
    rows
        One index array per draw; a source drawn twice has its rows there twice.
    """

    num_rows: int
    rows: tuple[Index, ...]

    def resample(self, statistic: Statistic, *columns: ArrayLike) -> "Resampled":
        """Return a statistic of some columns, each with ``num_rows`` rows, on all rows and on every draw.

        Raises
        ------
        ConfigError
            A column has another number of rows.
        """
        arrays = [np.asarray(column) for column in columns]
        if {len(array) for array in arrays} != {self.num_rows}:
            raise ConfigError(
                f"columns of {', '.join(str(len(array)) for array in arrays)} rows do not pair up with the sources of "
                f"{self.num_rows}; give every column one row per adapter"
            )
        values = [statistic(*(array[rows] for array in arrays)) for rows in self.rows]
        draws = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        return Resampled(statistic(*arrays), draws, self)


@dataclass(frozen=True, eq=False)
class Resampled:
    """A statistic and its draws, NaN in those where it is undefined (a draw may hold one class, or one value, only)."""

    estimate: float | None
    draws: Array
    taken_on: SourceDraws

    def interval(self, level: float) -> Interval | None:
        """Return the percentile interval over the draws in which the statistic is defined.

        None is returned where it is undefined on the data, or on half of the draws or more.
        """
        defined = self.draws[np.isfinite(self.draws)]
        if self.estimate is None or 2 * len(defined) <= len(self.draws):
            return None
        return percentile_interval(self.estimate, defined, level)

    def minus(self, other: "Resampled") -> "Resampled":
        """Return the difference draw by draw, so that what makes a draw hard for both cancels.

        Raises
        ------
        ConfigError
            The two were not taken on the same draws.
        """
        if self.taken_on is not other.taken_on:
            raise ConfigError("a paired difference needs both sides on the same draws; resample both from one")
        undefined = self.estimate is None or other.estimate is None
        estimate = None if undefined else self.estimate - other.estimate
        return Resampled(estimate, self.draws - other.draws, self.taken_on)


def draw_sources(sources: Sequence[str], *, num_draws: int, seed: int) -> SourceDraws:
    """Return draws of as many sources as there are, with replacement.

    Parameters
    ----------
    sources
        The source of every row.
    """
    names = np.array(sources)
    rows = [np.flatnonzero(names == source) for source in sorted(set(sources))]
    rng = np.random.default_rng(seed)
    chosen = (rng.integers(len(rows), size=len(rows)) for _ in range(num_draws))
    return SourceDraws(len(names), tuple(np.concatenate([rows[i] for i in places]) for places in chosen))
