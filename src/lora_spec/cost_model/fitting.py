"""From step-time cells to a cost model: drift taken out, cells pulled to the line of parts, bootstrap over trials."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.model import LEAST_MS, MOST_MS, CostModel
from lora_spec.cost_model.parts import PART_NAMES, fit_parts, parts_design
from lora_spec.cost_model.pulling import find_pull, noise_left, noise_variance, pulled
from lora_spec.cost_model.trials import hodges_lehmann, trial_drift, widened
from lora_spec.errors import MeasurementError
from lora_spec.step_time_cell import MIN_STEP_TIME_TRIALS, StepTimeCell

Array = NDArray[np.float64]
Grid = Mapping[tuple[int, int], Mapping[int, Array]]


def fit_cost_model(
    cells: Sequence[StepTimeCell], *, num_draws: int, seed: int, engine: Mapping[str, Any] | None = None
) -> CostModel:
    """Return the cost model of one engine at one LoRA rank.

    1. A trial's median step per cell, as a logarithm; what all cells of a trial share (a slow minute of the machine)
       is taken out by median polish, and comes back in the end as an uncertainty that all cells share.
    2. A cell's time is the Hodges-Lehmann estimate over trials (the median of all pairwise means): nearly as sharp
       as the mean, and deaf to single bad trials.
    3. The parts of a step (:mod:`lora_spec.cost_model.parts`) are fitted to all cells, and each cell is pulled to that
       line as far as its noise warrants (:mod:`lora_spec.cost_model.pulling`).
    4. A draw resamples the trials, with one choice for all cells since trials are interleaved, and the steps within
       each, and goes through 2 and 3 again; draws are widened by n / (n - 1) for the n trials they stand for.

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
    rng = np.random.default_rng(seed)
    logs = np.log(_trial_medians(grid, depths, batch_sizes, trials))
    drift = trial_drift(logs)
    chosen = rng.integers(len(trials), size=(num_draws, len(trials)))
    estimate = hodges_lehmann(logs - drift[:, None, None], axis=0)
    drawn = hodges_lehmann(_drawn(grid, depths, batch_sizes, trials, drift=drift, chosen=chosen, rng=rng), axis=1)
    drawn = widened(drawn, estimate, len(trials))
    design = parts_design(depths, batch_sizes)
    pull = find_pull(estimate, noise_variance(drawn), design)
    shared_drift = np.median(drift[chosen], axis=1)[:, None, None]  # relative to the middle trial, which has none
    draws = pulled(drawn, design, pull) + noise_left(num_draws, pull, rng) + shared_drift
    parts = fit_parts(np.exp(estimate), design, pull.weights)
    context = {
        "lora_rank": ranks.pop(),
        "num_context_tokens": sorted({cell.num_context_tokens for cell in cells}),
        "num_trials": len(trials),
        "max_load": max(max(cell.load_before, cell.load_after) for cell in cells),
        "parts": dict(zip(PART_NAMES, parts.tolist(), strict=True)),
        "engine": dict(engine or {}),
    }
    return CostModel(
        depths=tuple(depths),
        batch_sizes=tuple(batch_sizes),
        median_ms=np.exp(pulled(estimate[None], design, pull)[0]),
        draws_ms=np.exp(draws),
        context=context,
        relative_misfit=pull.misfit or 0.0,
    )


def _trial_medians(grid: Grid, depths: Sequence[int], batch_sizes: Sequence[int], trials: Sequence[int]) -> Array:
    """Return the median step of every trial and cell; shape ``(trials, K, B)``."""
    return np.array([[[np.median(grid[k, b][trial]) for b in batch_sizes] for k in depths] for trial in trials])


def _drawn(
    grid: Grid,
    depths: Sequence[int],
    batch_sizes: Sequence[int],
    trials: Sequence[int],
    *,
    drift: Array,
    chosen: NDArray[np.int64],
    rng: np.random.Generator,
) -> Array:
    """Return the chosen trials, steps resampled and without drift, shape ``(num_draws, trials, K, B)``, as logs."""
    drawn = np.empty((*chosen.shape, len(depths), len(batch_sizes)))
    for i, depth in enumerate(depths):
        for j, batch_size in enumerate(batch_sizes):
            for position, trial in enumerate(trials):
                steps = grid[depth, batch_size][trial]
                hits = np.nonzero(chosen == position)
                picks = rng.integers(len(steps), size=(len(hits[0]), len(steps)))
                drawn[(*hits, i, j)] = np.log(np.median(steps[picks], axis=1)) - drift[position]
    return drawn


def _grid(cells: Sequence[StepTimeCell]) -> tuple[Grid, list[int]]:
    """Return steps by (K, B) and trial, and the trials; every cell must have every trial."""
    steps: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        if cell.trial in steps[cell.num_speculative_tokens, cell.batch_size]:
            raise MeasurementError(
                f"K={cell.num_speculative_tokens}, batch {cell.batch_size}, trial {cell.trial}: stands twice; one of "
                "the two belongs to another measurement: measure again"
            )
        if not all(LEAST_MS < step < MOST_MS for step in cell.step_ms):
            raise MeasurementError(
                f"K={cell.num_speculative_tokens}, batch {cell.batch_size}, trial {cell.trial}: a step of "
                f"{min(cell.step_ms):g} to {max(cell.step_ms):g} ms; no step takes so little or so long: measure again"
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
    if len(trials) < MIN_STEP_TIME_TRIALS:
        raise MeasurementError(
            f"{len(trials)} trials of step times: fewer than {MIN_STEP_TIME_TRIALS} say nothing of how times vary; "
            "measure more"
        )
    grid = {cell: {trial: np.array(values) for trial, values in found.items()} for cell, found in steps.items()}
    return grid, trials
