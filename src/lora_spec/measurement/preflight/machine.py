"""The machine as the preflight finds it; what cannot be found is noted, so that the rest is still asked."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lora_spec.errors import MeasurementError
from lora_spec.measurement.preflight.disks import Disk, held_gib, look_at_disks
from lora_spec.measurement.preflight.gpus import Gpu, GpuReport, read_gpus
from lora_spec.measurement.preflight.serving import ServingEnvironment, ask_serving

T = TypeVar("T")


@dataclass(frozen=True)
class Unknown:
    """Why something could not be found out."""

    why: str


@dataclass(frozen=True)
class Machine:
    """Driver and GPUs, the serving environment, the file systems of a tier's folders, and what lies in these."""

    gpus: GpuReport | Unknown
    serving: ServingEnvironment | Unknown
    disks: tuple[Disk, ...]
    held_gib: float = 0.0

    @property
    def usable_gpus(self) -> tuple[Gpu, ...]:
        """Return what a job gets: the devices that torch sees, or all that the driver names where it sees none."""
        if isinstance(self.serving, ServingEnvironment) and self.serving.gpus:
            return self.serving.gpus
        return self.gpus.gpus if isinstance(self.gpus, GpuReport) else ()


def look_around(serving_python: Path, folders: Collection[Path]) -> Machine:
    """Return the machine that this process runs on; ``folders`` are those that a tier fills."""
    return Machine(
        gpus=_or_unknown(read_gpus),
        serving=_or_unknown(lambda: ask_serving(serving_python)),
        disks=look_at_disks(folders),
        held_gib=held_gib(folders),
    )


def _or_unknown(ask: Callable[[], T]) -> T | Unknown:
    try:
        return ask()
    except MeasurementError as err:
        return Unknown(str(err))
