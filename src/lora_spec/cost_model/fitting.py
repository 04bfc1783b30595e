"""From step-time cells to a cost model: medians, and a bootstrap over trials and the steps within them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.model import CostModel
from lora_spec.errors import MeasurementError
from lora_spec.records import StepTimeCell

Array = NDArray[np.float64]
Grid = Mapping[tuple[int, int], Mapping[int, Array]]


def fit_cost_model(
    cells: Sequence[StepTimeCell], *, num_draws: int, seed: int, engine: Mapping[str, Any] | None = None
) -> CostModel:
    """Return the cost model of one engine at one LoRA rank.

    A cell's time is the median over trials of the trials' medians. A draw resamples the trials, with one choice for
    all cells since trials are interleaved, and then the steps within each. With three trials such an interval is
    too narrow rather than too wide; that is why the trials are counted in ``context``.

    Parameters
    ----------
    engine
        What the engine was (name, version, dtype, models), to travel with every number.

    Raises
    ------
    MeasurementError
        No cells, trials that do not cover every depth and batch size, or two LoRA ranks.
    """
    ranks = {cell.lora_rank for cell in cells}
    if len(ranks) != 1:
        raise MeasurementError(
            f"step times at LoRA ranks {sorted(ranks)}: a cost model holds for one served rank; pass its cells only"
        )
    grid, trials = _grid(cells)
    depths, batch_sizes = sorted({k for k, _ in grid}), sorted({b for _, b in grid})
    medians = _cell_medians(grid, depths, batch_sizes, trials)
    context = {
        "lora_rank": ranks.pop(),
        "num_context_tokens": sorted({cell.num_context_tokens for cell in cells}),
        "num_trials": len(trials),
        "max_load": max(max(cell.load_before, cell.load_after) for cell in cells),
        "engine": dict(engine or {}),
    }
    return CostModel(
        depths=tuple(depths),
        batch_sizes=tuple(batch_sizes),
        median_ms=np.median(medians, axis=0),
        draws_ms=_draws(grid, depths, batch_sizes, trials, num_draws=num_draws, seed=seed),
        context=context,
    )


def _grid(cells: Sequence[StepTimeCell]) -> tuple[Grid, list[int]]:
    """Return steps by (K, B) and trial, and the trials; every cell must have every trial."""
    steps: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        if cell.trial in steps[cell.num_speculative_tokens, cell.batch_size]:
            raise MeasurementError(
                f"K={cell.num_speculative_tokens}, batch {cell.batch_size}, trial {cell.trial}: stands twice; one of "
                "the two belongs to another measurement: measure again"
            )
        steps[cell.num_speculative_tokens, cell.batch_size][cell.trial].extend(cell.step_ms)
    depths, batch_sizes = {k for k, _ in steps}, {b for _, b in steps}
    trials = sorted({trial for by_trial in steps.values() for trial in by_trial})
    for depth in sorted(depths):
        for batch_size in sorted(batch_sizes):
            missing = set(trials) - set(steps.get((depth, batch_size), {}))
            if missing:
                raise MeasurementError(
                    f"K={depth}, batch {batch_size}: trial {min(missing)} is missing; the grid must be whole, "
                    "or drift between trials would pass for a difference between cells"
                )
    grid = {cell: {trial: np.array(values) for trial, values in found.items()} for cell, found in steps.items()}
    return grid, trials


def _cell_medians(grid: Grid, depths: Sequence[int], batch_sizes: Sequence[int], trials: Sequence[int]) -> Array:
    """Return the median step of every trial and cell; shape ``(trials, K, B)``."""
    return np.array([[[np.median(grid[k, b][trial]) for b in batch_sizes] for k in depths] for trial in trials])


def _draws(
    grid: Grid, depths: Sequence[int], batch_sizes: Sequence[int], trials: Sequence[int], *, num_draws: int, seed: int
) -> Array:
    """Return bootstrap draws of the cells' times; shape ``(num_draws, K, B)``."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(trials), size=(num_draws, len(trials)))
    draws = np.empty((num_draws, len(depths), len(batch_sizes)))
    for i, depth in enumerate(depths):
        for j, batch_size in enumerate(batch_sizes):
            medians = np.empty((num_draws, len(trials)))
            for position, trial in enumerate(trials):
                steps = grid[depth, batch_size][trial]
                for place in range(len(trials)):
                    hits = np.flatnonzero(chosen[:, place] == position)
                    picks = rng.integers(len(steps), size=(len(hits), len(steps)))
                    medians[hits, place] = np.median(steps[picks], axis=1)
            draws[:, i, j] = np.median(medians, axis=1)
    return draws
