"""The timing campaign: step times of every depth and batch size from one engine, LoRA on."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lora_spec.engines import open_engine
from lora_spec.engines.options import offline_options
from lora_spec.measurement.campaign import adapter_ref
from lora_spec.measurement.step_times import measure_step_times
from lora_spec.measurement.timed_prompts import timed_prompts
from lora_spec.step_time_cell import StepTimeCell


def profile_cost(
    step_time: Mapping[str, Any],
    engine_settings: Mapping[str, Any],
    *,
    target: Path,
    drafter: Path,
    adapters: Mapping[str, Path],
    names: Mapping[str, str],
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Return the payload of a step-time result.

    Parameters
    ----------
    step_time, engine_settings
        Blocks of ``phase1_measurement.yaml`` and ``models.yaml``.
    names
        What results call the models, ``target`` and ``drafter``: a cost model holds for this pair only.
    report
        Called with one line per finished cell.
    """
    served = [adapter_ref(name, adapters) for name in adapters]
    engine = open_engine(
        "vllm_offline",
        target=str(target),
        drafter=str(drafter),
        num_speculative_tokens=max(step_time["depths"]),
        max_loras=max(1, len(served)),
        **offline_options(engine_settings),
    )
    with engine:
        cells = measure_step_times(
            engine,
            depths=step_time["depths"],
            batch_sizes=step_time["batch_sizes"],
            num_trials=step_time["num_trials"],
            prompts=timed_prompts(engine, max(step_time["batch_sizes"]), step_time["num_context_tokens"]),
            adapters=served,
            num_steps=step_time["num_steps"],
            num_warmup_steps=step_time["num_warmup_steps"],
            max_other_cores=step_time["max_other_cores"],
            max_wait_s=step_time["max_wait_s"],
            seed=step_time["seed"],
            report=lambda cell: report(_line(cell)),
        )
        return {"cells": [cell.to_dict() for cell in cells], "engine": {**engine.describe(), **names}}


def _line(cell: StepTimeCell) -> str:
    median = sorted(cell.step_ms)[len(cell.step_ms) // 2]
    return f"K={cell.num_speculative_tokens} B={cell.batch_size} trial {cell.trial}: {median:.0f} ms per step"
