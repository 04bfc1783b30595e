"""Step times T_K(B): interleaved trials on a machine that does nothing else, or none at all."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lora_spec.engines import AdapterRef, Engine, GenerationRequest
from lora_spec.errors import MeasurementError
from lora_spec.measurement.acceptance import Prompt
from lora_spec.measurement.lock import machine_lock
from lora_spec.measurement.machine_load import OtherCpuMeter
from lora_spec.records import StepTimeCell


class CpuMeter(Protocol):
    """A ``with`` block after which ``other_cores`` says how many cores others used."""

    other_cores: float

    def __enter__(self) -> "CpuMeter": ...

    def __exit__(self, *error: object) -> None: ...


@dataclass(frozen=True)
class _Trial:
    depth: int
    batch_size: int
    trial: int


def measure_step_times(
    engine: Engine,
    *,
    depths: Sequence[int],
    batch_sizes: Sequence[int],
    num_trials: int,
    prompts: Sequence[Prompt],
    adapters: Sequence[AdapterRef],
    num_steps: int,
    seed: int,
    num_warmup_steps: int = 3,
    max_other_cores: float = 0.25,
    max_attempts: int = 3,
    report: Callable[[StepTimeCell], None] | None = None,
    lock: Callable[[], AbstractContextManager[None]] = machine_lock,
    meter: Callable[[], CpuMeter] = OtherCpuMeter,
) -> list[StepTimeCell]:
    """Return one cell per depth, batch size and trial, in that order; every sequence is served with an adapter.

    Within a trial the cells run in an order drawn from the seed, so that slow drifts do not favour a depth. One unused
    run precedes the first trial. A cell during which other processes used more than ``max_other_cores`` cores is
    discarded and run again, at most ``max_attempts`` times.

    Parameters
    ----------
    prompts, adapters
        Dealt to the sequences of a batch in turn.
    num_steps, num_warmup_steps
        Timed decode steps per cell, and those before them that are not timed.
    report
        Called with every finished cell.

    Raises
    ------
    MeasurementError
        Fewer than three trials, no adapter, or a machine that stayed busy.
    """
    if num_trials < 3 or not adapters or not prompts:
        raise MeasurementError("step times need at least 3 trials, one adapter and one prompt; extend the config")
    plan = _interleave(depths, batch_sizes, num_trials, seed)
    cells: dict[_Trial, StepTimeCell] = {}
    with lock():
        try:
            _time_cell(engine, plan[0], prompts, adapters, num_steps=1, num_warmup_steps=0, meter=meter)
            for trial in plan:
                cells[trial] = _time_quiet_cell(
                    engine,
                    trial,
                    prompts,
                    adapters,
                    num_steps=num_steps,
                    num_warmup_steps=num_warmup_steps,
                    max_other_cores=max_other_cores,
                    max_attempts=max_attempts,
                    meter=meter,
                )
                if report is not None:
                    report(cells[trial])
        finally:
            engine.set_depth(None)
    ordered = sorted(cells, key=lambda trial: (trial.depth, trial.batch_size, trial.trial))
    return [cells[trial] for trial in ordered]


def _interleave(depths: Sequence[int], batch_sizes: Sequence[int], num_trials: int, seed: int) -> list[_Trial]:
    rng = np.random.default_rng(seed)
    pairs = [(depth, batch_size) for depth in depths for batch_size in batch_sizes]
    return [_Trial(*pairs[index], trial) for trial in range(num_trials) for index in rng.permutation(len(pairs))]


def _time_quiet_cell(
    engine: Engine,
    trial: _Trial,
    prompts: Sequence[Prompt],
    adapters: Sequence[AdapterRef],
    *,
    num_steps: int,
    num_warmup_steps: int,
    max_other_cores: float,
    max_attempts: int,
    meter: Callable[[], CpuMeter],
) -> StepTimeCell:
    seen = []
    for _ in range(max_attempts):
        cell, other_cores = _time_cell(
            engine, trial, prompts, adapters, num_steps=num_steps, num_warmup_steps=num_warmup_steps, meter=meter
        )
        if other_cores <= max_other_cores:
            return cell
        seen.append(round(other_cores, 2))
    raise MeasurementError(
        f"step times at K={trial.depth}, batch {trial.batch_size}: other processes used {seen} cores in "
        f"{max_attempts} attempts, allowed are {max_other_cores}; stop them and measure again"
    )


def _time_cell(
    engine: Engine,
    trial: _Trial,
    prompts: Sequence[Prompt],
    adapters: Sequence[AdapterRef],
    *,
    num_steps: int,
    num_warmup_steps: int,
    meter: Callable[[], CpuMeter],
) -> tuple[StepTimeCell, float]:
    """Return one cell and the cores that others used meanwhile."""
    requests = [
        GenerationRequest(str(i), prompts[i % len(prompts)].token_ids, 1, adapters[i % len(adapters)])
        for i in range(trial.batch_size)
    ]
    engine.set_depth(trial.depth)
    load_before = os.getloadavg()[0]
    with meter() as used:
        timing = engine.time_decode_steps(requests, num_steps=num_steps, num_warmup_steps=num_warmup_steps)
    cell = StepTimeCell(
        num_speculative_tokens=trial.depth,
        batch_size=trial.batch_size,
        trial=trial.trial,
        lora_rank=max(adapter.lora_rank for adapter in adapters),
        num_context_tokens=timing.num_context_tokens,
        step_ms=timing.step_ms,
        load_before=load_before,
        load_after=os.getloadavg()[0],
    )
    return cell, used.other_cores
