"""Could an order this good be chance? A permutation test of Spearman's correlation that respects sources.

What is taken to be exchangeable if a prediction says nothing of what was measured: sources of equally many adapters
among each other, each with its block of measured values whole, and the adapters within a source. Values are therefore
never dealt out over all adapters: those of one source resemble each other, and so do their predictions. A source whose
number of adapters no other shares keeps its block.

Predictions stand as they are; no predictor is fitted again. A prediction made without a source leans against that
source's truth (what is left without a high source is low), so this errs towards large p.

References: Winkler, Webster, Vidaurre, Nichols and Smith 2015 (multi-level block permutation); Phipson and Smyth 2010
(p is never zero).
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lora_spec.errors import ConfigError

Index = NDArray[np.intp]


def permutation_p_value(
    predicted: Sequence[float],
    measured: Sequence[float],
    *,
    sources: Sequence[str],
    num_permutations: int,
    seed: int,
) -> float | None:
    """Return p = (1 + count) / (1 + n), count being the permutations whose correlation is at least the one found.

    One-sided: a reversed order is no evidence of foresight. None is returned where one side does not vary.

    Raises
    ------
    ConfigError
        The three are not of one length.
    """
    from scipy.stats import rankdata

    if not len(predicted) == len(measured) == len(sources):
        raise ConfigError(
            f"{len(predicted)} predictions, {len(measured)} measurements and {len(sources)} sources do not pair up"
        )
    # Twice a rank is whole even in a tie, so that equal correlations are equal to the last bit.
    left, right = (np.rint(2 * rankdata(side)).astype(np.int64) for side in (predicted, measured))
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return None
    orders = _permutations(sources, num_permutations, np.random.default_rng(seed))
    # Ranks keep their mean and spread when permuted: the sum of products orders correlations.
    count = int(np.sum(right[orders] @ left >= right @ left))
    return (1 + count) / (1 + num_permutations)


def _permutations(sources: Sequence[str], num_permutations: int, rng: np.random.Generator) -> Index:
    """Return the row whose measured value each row gets, shape ``(num_permutations, n)``."""
    names, by_size = np.array(sources), defaultdict(list)
    for source in sorted(set(sources)):
        rows = np.flatnonzero(names == source)
        by_size[len(rows)].append(rows)
    orders = np.empty((num_permutations, len(names)), dtype=np.intp)
    for size in sorted(by_size):
        blocks = np.array(by_size[size])
        places = rng.permuted(np.tile(np.arange(len(blocks)), (num_permutations, 1)), axis=1)
        within = rng.permuted(np.tile(np.arange(size), (num_permutations, len(blocks), 1)), axis=2)
        orders[:, blocks.ravel()] = np.take_along_axis(blocks[places], within, axis=2).reshape(num_permutations, -1)
    return orders
