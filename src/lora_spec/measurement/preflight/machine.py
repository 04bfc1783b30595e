"""The machine as the preflight finds it; what cannot be found is noted, so that the rest is still asked."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lora_spec.errors import MeasurementError
from lora_spec.measurement.preflight.gpus import GpuReport, read_gpus
from lora_spec.measurement.preflight.serving import ServingEnvironment, ask_serving

T = TypeVar("T")


@dataclass(frozen=True)
class Unknown:
    """Why something could not be found out."""

    why: str


@dataclass(frozen=True)
class Machine:
    """Driver and GPUs, the serving environment, and the space below the checkout."""

    gpus: GpuReport | Unknown
    serving: ServingEnvironment | Unknown
    free_disk_gib: float
    folder: str = "."


def look_around(serving_python: Path, folder: Path) -> Machine:
    """Return the machine that this process runs on."""
    return Machine(
        gpus=_or_unknown(read_gpus),
        serving=_or_unknown(lambda: ask_serving(serving_python)),
        free_disk_gib=shutil.disk_usage(folder).free / 2**30,
        folder=str(folder.resolve()),
    )


def _or_unknown(ask: Callable[[], T]) -> T | Unknown:
    try:
        return ask()
    except MeasurementError as err:
        return Unknown(str(err))
