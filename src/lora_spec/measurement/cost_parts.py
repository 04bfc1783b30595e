"""The campaign on the parts of a step: three engines side by side, interleaved trials, alone on the machine."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from lora_spec.cost_cells import AdapterLoadCell, CostCell, EngineArm
from lora_spec.engines import AdapterRef, Engine, open_engine
from lora_spec.engines.options import offline_options
from lora_spec.errors import MeasurementError
from lora_spec.measurement.campaign import adapter_ref
from lora_spec.measurement.cost_runs import DecodeRun, Run, Served, plan_runs
from lora_spec.measurement.lock import machine_lock
from lora_spec.measurement.machine_load import CpuMeter, OtherCpuMeter, Patience
from lora_spec.measurement.progress import with_progress
from lora_spec.measurement.timed_prompts import timed_prompts
from lora_spec.step_time_cell import MIN_STEP_TIME_TRIALS
from lora_spec.training.rank_copies import copy_at_rank


@dataclass(frozen=True)
class CostParts:
    """All cells of a campaign, by trial."""

    cells: tuple[CostCell, ...]
    loads: tuple[AdapterLoadCell, ...]


def measure_cost_parts(
    engines: Mapping[EngineArm, Engine],
    settings: Mapping[str, Any],
    *,
    served: Served,
    report: Callable[[str], None],
    lock: Callable[[], AbstractContextManager[None]] = machine_lock,
    meter: Callable[[], CpuMeter] = OtherCpuMeter,
    sleep: Callable[[float], None] = time.sleep,
) -> CostParts:
    """Return the cells of every trial; the runs of a trial are in an order drawn from the seed.

    One unused run per engine precedes the first trial. A run during which others used more than ``max_other_cores``
    is discarded, and repeated once the machine is quiet.

    Raises
    ------
    MeasurementError
        Fewer than three trials, no adapter, or a machine that stayed busy.
    """
    if settings["num_trials"] < MIN_STEP_TIME_TRIALS or not served.adapters:
        raise MeasurementError(
            f"the parts of a step need {MIN_STEP_TIME_TRIALS} trials and one adapter at least; extend the config"
        )
    runs, rng = plan_runs(settings), np.random.default_rng(settings["seed"])
    patience = Patience(settings["max_other_cores"], settings["max_wait_s"], meter=meter, sleep=sleep)
    plan = [(runs[index], trial) for trial in range(settings["num_trials"]) for index in rng.permutation(len(runs))]
    found: list[CostCell | AdapterLoadCell] = []
    with lock():
        for arm, engine in engines.items():
            next(run for run in runs if run.arm == arm and isinstance(run, DecodeRun)).time(engine, served, trial=0)
        for run, trial in with_progress(plan, total=len(plan), doing="parts of a step", unit="run"):
            timed = _time_quiet(run, engines[run.arm], served, trial=trial, patience=patience, meter=meter)
            found += timed
            report(f"{_name(run)}, trial {trial}: {', '.join(f'{_shown_ms(cell):.0f} ms' for cell in timed)}")
    cells = tuple(cell for cell in found if isinstance(cell, CostCell))
    return CostParts(cells, tuple(cell for cell in found if isinstance(cell, AdapterLoadCell)))


def _time_quiet(
    run: Run,
    engine: Engine,
    served: Served,
    *,
    trial: int,
    patience: Patience,
    meter: Callable[[], CpuMeter],
) -> Sequence[CostCell | AdapterLoadCell]:
    while True:
        with meter() as used:
            timed = run.time(engine, served, trial=trial)
        if used.other_cores <= patience.max_other_cores:
            return timed
        patience.wait(used.other_cores, doing=_name(run))


def _name(run: Run) -> str:
    size = getattr(run, "batch_size", None)
    what = type(run).__name__.removesuffix("Run").lower()
    return f"{run.arm} {what}" + ("" if size is None else f" at batch {size}")


def _shown_ms(cell: CostCell | AdapterLoadCell) -> float:
    return float(np.median(cell.step_ms)) if isinstance(cell, CostCell) else cell.first_use_ms


def profile_cost_parts(
    cost_parts: Mapping[str, Any],
    engine_settings: Mapping[str, Any],
    *,
    target: Path,
    drafter: Path,
    adapters: Mapping[str, Path],
    names: Mapping[str, str],
    report: Callable[[str], None],
    **machine: Any,
) -> dict[str, Any]:
    """Return the payload of a ``cost_parts`` result.

    Parameters
    ----------
    cost_parts, engine_settings
        Blocks of ``phase1_measurement.yaml`` and ``models.yaml``.
    names
        What results call the models, ``target`` and ``drafter``.
    report
        Called with one line per finished run.
    machine
        Passed on to :func:`measure_cost_parts`.
    """
    refs = [adapter_ref(name, adapters) for name in adapters]
    ranks = sorted({rank for use in ("fit", "validation") for rank in cost_parts[use]["load_ranks"]})
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="lora-spec-ranks-")))
        copies = {rank: _copy(refs, rank, folder) for rank in ranks}
        options = {**offline_options(engine_settings), "target": str(target)}
        engines = {
            arm: stack.enter_context(open_engine("vllm_offline", **options, **changes))
            for arm, changes in _arms(cost_parts, drafter, num_adapters=len(refs)).items()
        }
        served = Served(
            prompts=lru_cache(lambda num, length: timed_prompts(engines["served"], num, length)),
            adapters=refs,
            load_copies=copies,
            num_steps=cost_parts["num_steps"],
            num_warmup_steps=cost_parts["num_warmup_steps"],
        )
        timed = measure_cost_parts(engines, cost_parts, served=served, report=report, **machine)
        return {
            "cells": [cell.to_dict() for cell in timed.cells],
            "loads": [cell.to_dict() for cell in timed.loads],
            "engines": {arm: {**engine.describe(), **names} for arm, engine in engines.items()},
        }


def _copy(refs: Sequence[AdapterRef], rank: int, folder: Path) -> AdapterRef:
    return AdapterRef(f"load-rank-{rank}", str(copy_at_rank(Path(refs[0].path), rank, folder / str(rank))), rank)


def _arms(cost_parts: Mapping[str, Any], drafter: Path, *, num_adapters: int) -> dict[EngineArm, dict[str, Any]]:
    """Return what each engine is started with beside the tier's options."""
    depths = [depth for use in ("fit", "validation") for depth in _all_depths(cost_parts[use])]
    speculating = {"drafter": str(drafter), "num_speculative_tokens": max(depths), "is_drafter_run_at_depth_zero": True}
    return {
        "served": {**speculating, "max_loras": num_adapters},
        # Room in memory for a copy that has no slot, beside the served ones.
        "no_drafter": {"max_loras": num_adapters, "max_cpu_loras": num_adapters + 2},
        "no_lora": speculating,
    }


def _all_depths(cells: Mapping[str, Any]) -> list[int]:
    grids = [*cells["decode"], cells["no_lora"], cells["prefill"]]
    mixes = [mix for grid in cells["mixed"] for mix in grid["mixes"]]
    return [depth for grid in grids for depth in grid["depths"]] + [depth for mix in mixes for depth in mix]
