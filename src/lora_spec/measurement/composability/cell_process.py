"""Run one cell's program in a process of its own and read what it left. Judges nothing."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lora_spec.engines.cell_spec import CellSpec
from lora_spec.engines.limited_process import ProcessEnd, run_limited
from lora_spec.measurement.lock import machine_lock
from lora_spec.measurement.machine_load import OtherCpuMeter
from lora_spec.results import write_json_atomically

VLLM_PROGRAM = (sys.executable, "-m", "lora_spec.engines.vllm_cell")
Lock = Callable[[], AbstractContextManager[None]]


def share_machine() -> AbstractContextManager[None]:
    """Return the machine's lock, shared: a timing that holds it is waited for, and none starts meanwhile."""
    return machine_lock(is_shared=True)


@dataclass(frozen=True)
class CellEnd:
    """How a cell's process ended, its report (None where it left none), and CPU used by others meanwhile, in cores."""

    process: ProcessEnd
    report: dict[str, Any] | None
    other_cores: float


def run_cell(
    spec: CellSpec, folder: Path, *, timeout_s: float, program: Sequence[str] = VLLM_PROGRAM, lock: Lock = share_machine
) -> CellEnd:
    """Run a program on a spec; spec, report and log stay in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "spec.json", folder / "report.json"]
    write_json_atomically(paths[0], spec.to_dict())
    paths[1].unlink(missing_ok=True)
    with lock(), OtherCpuMeter() as meter:
        end = run_limited([*program, *map(str, paths)], timeout_s=timeout_s, log=folder / "log.txt")
    report = _report_at(paths[1])
    shown = replace(end, log_tail=tuple(without_machine(line) for line in end.log_tail))
    return CellEnd(shown, without_machine(report), round(meter.other_cores, 2))


def _report_at(path: Path) -> dict[str, Any] | None:
    """Return what a process reported; half a report is none."""
    try:
        report = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return report if isinstance(report, dict) else None


def without_machine(data: Any) -> Any:
    """Return text, or data that holds texts, with folders of this machine named by what they are."""
    if isinstance(data, str):
        for path, name in _places().items():
            data = data.replace(path, name)
        return data
    if isinstance(data, Mapping):
        return {key: without_machine(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [without_machine(value) for value in data]
    return data


def _places() -> dict[str, str]:
    """Return folders of this machine, the longer before those that hold them."""
    named = {os.path.realpath(sys.prefix): "<env>", sys.prefix: "<env>", str(Path.cwd()): ".", str(Path.home()): "~"}
    return {path: named[path] for path in sorted(named, key=len, reverse=True) if len(path) > 1}
