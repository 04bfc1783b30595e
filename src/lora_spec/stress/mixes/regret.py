"""Regret of every contender over all mixes and loads: the share of the oracle's goodput that it does not reach."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.mix_goodput import best_depths
from lora_spec.cost_model.model import CostModel
from lora_spec.cost_model.table_steps import TableSteps
from lora_spec.stress.mixes.contenders import Contender, off_elsewhere
from lora_spec.stress.mixes.mix import Mix
from lora_spec.stress.mixes.serving import ServedMix

Array = NDArray[np.float64]

_QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}


def regrets_of(
    contenders: Sequence[Contender],
    mixes: Sequence[Mix],
    names: Sequence[str],
    cost_model: CostModel,
    *,
    batch_sizes: Sequence[int],
    max_depth: int,
    token_ms: float,
    off_taxes: Mapping[int, float] | None = None,
    seed: int,
    threads: int = 1,
) -> Array:
    """Return 1 - goodput / the oracle's, shape ``(contenders, loads, mixes)``; 0 is the oracle's own.

    The oracle knows the truth of the mix and chooses a depth per adapter up to ``max_depth`` for one engine that serves
    all of them (:func:`lora_spec.cost_model.mix_goodput.best_depths`), or an engine without a drafter.

    Parameters
    ----------
    names
        Of the adapters that mixes are drawn from.
    token_ms
        What a token costs that one request of a step verifies: spared where it drafts less than the deepest.
    off_taxes
        By batch size, what being off in an engine that can draft costs; None where nobody has measured it: then it
        counts as nothing.
    """
    from joblib import Parallel, delayed

    one = partial(
        _regrets_at_loads,
        contenders,
        names,
        cost_model,
        batch_sizes=batch_sizes,
        max_depth=max_depth,
        token_ms=token_ms,
        off_taxes=off_taxes or {},
    )
    jobs = (delayed(one)(mix, seed=seed + place) for place, mix in enumerate(mixes))
    return np.stack(list(Parallel(n_jobs=threads)(jobs)), axis=-1)


def _regrets_at_loads(
    contenders: Sequence[Contender],
    names: Sequence[str],
    cost_model: CostModel,
    mix: Mix,
    *,
    batch_sizes: Sequence[int],
    max_depth: int,
    token_ms: float,
    off_taxes: Mapping[int, float],
    seed: int,
) -> Array:
    """Return one mix's regrets, shape ``(contenders, loads)``."""
    columns = []
    for size in batch_sizes:
        tax = off_taxes.get(size, 0.0)
        steps = TableSteps.of(cost_model, size, max_depth=max_depth, token_ms=token_ms, draw=mix.draw).taxed(tax)
        served = ServedMix([names[place] for place in mix.places], mix.lengths, mix.shares, steps, tax)
        in_engine = served.goodput(best_depths(served.lengths, served.shares, steps).tolist())
        best = max(in_engine, off_elsewhere(served))
        columns.append([1 - contender.goodput(served, seed) / best for contender in contenders])
    return np.array(columns).T


def summary_of(regrets: Array) -> dict[str, float]:
    """Return the mean of some regrets, how they spread, and the largest."""
    spread = np.quantile(regrets, list(_QUANTILES.values())).tolist()
    return {
        "mean": float(regrets.mean()),
        **dict(zip(_QUANTILES, spread, strict=True)),
        "max": float(regrets.max()),
    }
