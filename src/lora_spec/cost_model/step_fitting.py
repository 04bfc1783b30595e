"""From cells of any make-up to the parts of a step, by non-negative least squares on relative errors."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_cells import AdapterLoadCell, CostCell
from lora_spec.cost_model.model import LEAST_MS, MOST_MS
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.step_parts import STEP_PART_NAMES, step_parts
from lora_spec.cost_model.trials import hodges_lehmann, trial_drift, widened
from lora_spec.errors import MeasurementError
from lora_spec.step_time_cell import MIN_STEP_TIME_TRIALS

Array = NDArray[np.float64]


def fit_step_costs(
    cells: Sequence[CostCell],
    loads: Sequence[AdapterLoadCell],
    *,
    num_draws: int,
    seed: int,
    engine: Mapping[str, Any] | None = None,
) -> StepCostModel:
    """Return the parts of a step, fitted to the cells whose use is ``fit``; others are left alone, whatever they say.

    Times are treated as in :func:`~lora_spec.cost_model.fitting.fit_cost_model`: the drift of a trial taken out,
    Hodges-Lehmann over trials, and draws that resample trials, one choice for all cells, and the steps within each.
    No cell is pulled anywhere: the parts are the model.

    Raises
    ------
    MeasurementError
        Trials that do not cover every cell, two served ranks, or cells that cannot tell two parts apart.
    """
    grid, trials = _by_make_up([cell for cell in cells if cell.use == "fit"])
    chosen_loads = [cell for cell in loads if cell.use == "fit"]
    # Contexts differ a little from trial to trial, since drafts are accepted or not.
    design = np.array([np.mean([counts_of(cell) for cell in repeats.values()], axis=0) for repeats in grid])
    _check_told_apart(design)
    rng = np.random.default_rng(seed)
    logs = np.log([[np.median(repeats[trial].step_ms) for repeats in grid] for trial in trials])
    drift = trial_drift(logs)
    picks = rng.integers(len(trials), size=(num_draws, len(trials)))
    estimate = hodges_lehmann(logs - drift[:, None], axis=0)
    drawn = widened(hodges_lehmann(_drawn(grid, trials, drift, picks, rng), axis=1), estimate, len(trials))
    shared_drift = np.median(drift[picks], axis=1)[:, None]
    rank_loads = _loads_by_rank(chosen_loads, trials)
    return StepCostModel(
        parts_ms=_fit_parts(np.exp(estimate), design),
        part_draws_ms=np.array([_fit_parts(np.exp(times), design) for times in drawn + shared_drift]),
        loads_ms=_fit_loads(rank_loads),
        load_draws_ms=np.array([_fit_loads(rank_loads, picked) for picked in picks]),
        context=_context([repeats[trial] for repeats in grid for trial in trials], sorted(rank_loads), engine),
    )


def counts_of(cell: CostCell) -> tuple[float, ...]:
    """Return how often each part occurs in a cell's steps."""
    return step_parts(
        cell.depths,
        cell.num_prefill_tokens,
        cell.num_context_tokens,
        has_drafter=cell.arm != "no_drafter",
        has_lora=cell.arm != "no_lora",
    )


def _by_make_up(cells: Sequence[CostCell]) -> tuple[list[dict[int, CostCell]], list[int]]:
    """Return every make-up's cell by trial, and the trials; every make-up must have every trial."""
    found: dict[Any, dict[int, CostCell]] = defaultdict(dict)
    for cell in cells:
        if cell.trial in found[cell.make_up]:
            raise MeasurementError(f"{cell.make_up}, trial {cell.trial}: stands twice; measure the parts again")
        if not all(LEAST_MS < step < MOST_MS for step in cell.step_ms):
            raise MeasurementError(f"{cell.make_up}, trial {cell.trial}: no step takes so little or so long")
        found[cell.make_up][cell.trial] = cell
    trials = sorted({cell.trial for cell in cells})
    ranks = {cell.lora_rank for cell in cells if cell.arm != "no_lora"}
    incomplete = [make_up for make_up, repeats in found.items() if len(repeats) < len(trials)]
    if len(trials) < MIN_STEP_TIME_TRIALS or len(ranks) != 1 or incomplete:
        raise MeasurementError(
            f"parts of a step: {len(trials)} trials ({MIN_STEP_TIME_TRIALS} needed), served ranks {sorted(ranks)} (one "
            f"needed), {len(incomplete)} cells without some trial (none allowed, or drift would pass for a difference "
            "between cells); measure again"
        )
    return list(found.values()), trials


def _check_told_apart(design: Array) -> None:
    scaled = design / np.maximum(np.abs(design).max(axis=0), 1)
    rank = np.linalg.matrix_rank(scaled)
    if rank == len(STEP_PART_NAMES):
        return
    _, _, directions = np.linalg.svd(scaled)
    blurred = np.abs(directions[rank:]).max(axis=0) > 1e-6
    names = [name for name, is_blurred in zip(STEP_PART_NAMES, blurred, strict=True) if is_blurred]
    raise MeasurementError(
        f"the cells cannot tell apart {', '.join(names)}; add cells to cost_parts.fit in which they differ"
    )


def _drawn(
    grid: Sequence[Mapping[int, CostCell]],
    trials: Sequence[int],
    drift: Array,
    picks: NDArray[np.int64],
    rng: np.random.Generator,
) -> Array:
    """Return the picked trials, steps resampled and without drift, shape ``(num_draws, trials, cells)``, as logs."""
    drawn = np.empty((*picks.shape, len(grid)))
    for place, repeats in enumerate(grid):
        for position, trial in enumerate(trials):
            steps = np.array(repeats[trial].step_ms)
            hits = np.nonzero(picks == position)
            resampled = steps[rng.integers(len(steps), size=(len(hits[0]), len(steps)))]
            drawn[(*hits, place)] = np.log(np.median(resampled, axis=1)) - drift[position]
    return drawn


def _fit_parts(times_ms: Array, design: Array) -> Array:
    """Return the parts, none negative, with the least squared relative errors."""
    from scipy.optimize import nnls

    # Columns of one size: a token's part is thousands of times smaller than a step's.
    scale = design.max(axis=0)
    return nnls(design / scale / times_ms[:, None], np.ones(len(times_ms)))[0] / scale


def _loads_by_rank(loads: Sequence[AdapterLoadCell], trials: Sequence[int]) -> dict[int, Array]:
    """Return, by rank, what first use and placing add to the step in each trial; shape ``(trials, 2)``, ms."""
    found: dict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
    for cell in loads:
        # Where noise exceeds the load it is no less than nothing.
        added = (cell.first_use_ms - cell.loaded_ms, cell.from_memory_ms - cell.loaded_ms)
        found[cell.lora_rank][cell.trial] = (max(0.0, added[0]), max(0.0, added[1]))
    if len(found) < 2 or any(sorted(by_trial) != list(trials) for by_trial in found.values()):
        raise MeasurementError(
            f"adapter loads at ranks {sorted(found)}: two ranks or more are needed, each in every trial; extend "
            "cost_parts.fit.load_ranks and measure again"
        )
    return {rank: np.array([by_trial[trial] for trial in trials]) for rank, by_trial in sorted(found.items())}


def _fit_loads(rank_loads: Mapping[int, Array], picked: NDArray[np.int64] | None = None) -> Array:
    """Return the two lines over rank, by :data:`LOAD_PART_NAMES`, each through medians over trials."""
    from scipy.optimize import nnls

    design = np.array([(1.0, rank) for rank in rank_loads])
    every = slice(None) if picked is None else picked
    medians = np.array([np.median(times[every], axis=0) for times in rank_loads.values()])
    return np.concatenate([nnls(design, medians[:, column])[0] for column in (0, 1)])


def _context(cells: Sequence[CostCell], load_ranks: Sequence[int], engine: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "lora_rank": max(cell.lora_rank for cell in cells),
        "load_ranks": list(load_ranks),
        "max_batch_size": max(len(cell.depths) for cell in cells),
        "max_depth": max(max(cell.depths, default=0) for cell in cells),
        "max_prefill_tokens": max(cell.num_prefill_tokens for cell in cells),
        "max_context_tokens": max(cell.num_context_tokens for cell in cells),
        "num_cells": len({cell.make_up for cell in cells}),
        "num_trials": len({cell.trial for cell in cells}),
        "max_load": max(max(cell.load_before, cell.load_after) for cell in cells),
        "engine": dict(engine or {}),
    }
