"""Step times T_K(B): interleaved trials on a machine that does nothing else, or none at all."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from lora_spec.engines import AdapterRef, Engine, GenerationRequest
from lora_spec.errors import MeasurementError
from lora_spec.measurement.acceptance import Prompt
from lora_spec.measurement.lock import machine_lock
from lora_spec.measurement.machine_load import CpuMeter, OtherCpuMeter, Patience
from lora_spec.measurement.progress import with_progress
from lora_spec.step_time_cell import MIN_STEP_TIME_TRIALS, StepTimeCell


@dataclass(frozen=True)
class _Batch:
    """One running batch of one trial, taken through all depths in an order of its own."""

    batch_size: int
    trial: int
    depths: tuple[int, ...]


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
    max_wait_s: float = 600.0,
    report: Callable[[StepTimeCell], None] | None = None,
    lock: Callable[[], AbstractContextManager[None]] = machine_lock,
    meter: Callable[[], CpuMeter] = OtherCpuMeter,
    sleep: Callable[[float], None] = time.sleep,
) -> list[StepTimeCell]:
    """Return one cell per depth, batch size and trial, in that order; every sequence is served with an adapter.

    A trial takes one running batch of every size through all depths, sizes and depths in orders drawn from the seed:
    depths that are compared are timed seconds apart, so that a drift of the machine favours none. One unused run
    precedes the first trial. A batch during which other processes used more than ``max_other_cores`` cores is
    discarded, and run again once the machine is quiet; all such waiting together may take ``max_wait_s``.

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
    if num_trials < MIN_STEP_TIME_TRIALS or not adapters or not prompts:
        raise MeasurementError(
            f"step times need at least {MIN_STEP_TIME_TRIALS} trials, one adapter and one prompt; extend the config"
        )
    plan = _interleave(depths, batch_sizes, num_trials, seed)
    patience = Patience(max_other_cores, max_wait_s, meter=meter, sleep=sleep)
    cells: list[StepTimeCell] = []
    with lock():
        try:
            _time_batch(engine, plan[0], prompts, adapters, num_steps=1, num_warmup_steps=0, meter=meter)
            for batch in with_progress(plan, total=len(plan), doing="step times", unit="batch"):
                timed = _time_quiet_batch(
                    engine,
                    batch,
                    prompts,
                    adapters,
                    num_steps=num_steps,
                    num_warmup_steps=num_warmup_steps,
                    patience=patience,
                    meter=meter,
                )
                cells += timed
                for cell in timed if report is not None else ():
                    report(cell)
        finally:
            engine.set_depth(None)
    return sorted(cells, key=lambda cell: (cell.num_speculative_tokens, cell.batch_size, cell.trial))


def _interleave(depths: Sequence[int], batch_sizes: Sequence[int], num_trials: int, seed: int) -> list[_Batch]:
    rng = np.random.default_rng(seed)
    return [
        _Batch(batch_size, trial, tuple(int(depth) for depth in rng.permutation(depths)))
        for trial in range(num_trials)
        for batch_size in map(int, rng.permutation(batch_sizes))
    ]


def _time_quiet_batch(
    engine: Engine,
    batch: _Batch,
    prompts: Sequence[Prompt],
    adapters: Sequence[AdapterRef],
    *,
    num_steps: int,
    num_warmup_steps: int,
    patience: Patience,
    meter: Callable[[], CpuMeter],
) -> list[StepTimeCell]:
    while True:
        cells, other_cores = _time_batch(
            engine, batch, prompts, adapters, num_steps=num_steps, num_warmup_steps=num_warmup_steps, meter=meter
        )
        if other_cores <= patience.max_other_cores:
            return cells
        patience.wait(other_cores, doing=f"step times at batch {batch.batch_size}")


def _time_batch(
    engine: Engine,
    batch: _Batch,
    prompts: Sequence[Prompt],
    adapters: Sequence[AdapterRef],
    *,
    num_steps: int,
    num_warmup_steps: int,
    meter: Callable[[], CpuMeter],
) -> tuple[list[StepTimeCell], float]:
    """Return one cell per depth, and the cores that others used meanwhile."""
    requests = [
        GenerationRequest(str(i), prompts[i % len(prompts)].token_ids, 1, adapters[i % len(adapters)])
        for i in range(batch.batch_size)
    ]
    load_before = os.getloadavg()[0]
    with meter() as used:
        timings = engine.time_decode_steps(
            requests, depths=batch.depths, num_steps=num_steps, num_warmup_steps=num_warmup_steps
        )
    cells = [
        StepTimeCell(
            num_speculative_tokens=depth,
            batch_size=batch.batch_size,
            trial=batch.trial,
            lora_rank=max(adapter.lora_rank for adapter in adapters),
            num_context_tokens=timing.num_context_tokens,
            step_ms=timing.step_ms,
            load_before=load_before,
            load_after=os.getloadavg()[0],
        )
        for depth, timing in zip(batch.depths, timings, strict=True)
    ]
    return cells, used.other_cores
