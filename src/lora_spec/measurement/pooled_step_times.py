"""Several runs of the same timing plan as one: more trials, where a machine is too noisy for those of one run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lora_spec.errors import MeasurementError
from lora_spec.measurement.payload import StepTimePayload
from lora_spec.results import Result
from lora_spec.typed import read_typed_result

_SAME = ("cpu_model", "cpu_features", "num_cpus", "num_threads")


def pool_step_times(paths: Sequence[Path], *, tier: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return payload and provenance of all runs together; trials of later runs count on from those of earlier ones.

    Raises
    ------
    MeasurementError
        Fewer than two runs, one of them twice, or runs that differ in more than when they were made: settings, engine
        or processor.
    """
    runs = [read_typed_result(path, "step_time_cells", StepTimePayload, tier=tier) for path in paths]
    _check_alike(runs)
    cells: list[dict[str, Any]] = []
    for run in runs:
        first = 1 + max((cell["trial"] for cell in cells), default=-1)
        cells += [{**cell, "trial": first + cell["trial"]} for cell in run.payload["cells"]]
    told = [{key: run.provenance[key] for key in ("timestamp", "git_sha", "is_git_dirty")} for run in runs]
    return {**runs[0].payload, "cells": cells}, {**runs[0].provenance, "runs": told}


def _check_alike(runs: Sequence[Result]) -> None:
    if len(runs) < 2:
        raise MeasurementError(f"{len(runs)} run of step times: give two or more")
    first = runs[0]
    for run in runs[1:]:
        pairs = [("settings", first.provenance["config"], run.provenance["config"])]
        pairs += [("engine", first.payload["engine"], run.payload["engine"])]
        pairs += [(key, _runtime(first).get(key), _runtime(run).get(key)) for key in _SAME]
        for what, expected, found in pairs:
            if expected != found:
                raise MeasurementError(f"{run.path}: another {what} than {first.path}; pool runs of one plan only")
    stamps = [run.provenance["timestamp"] for run in runs]
    if len(set(stamps)) < len(stamps):
        raise MeasurementError(f"{', '.join(str(run.path) for run in runs)}: one run stands twice; give each once")


def _runtime(run: Result) -> Mapping[str, Any]:
    return run.provenance.get("runtime", {})
