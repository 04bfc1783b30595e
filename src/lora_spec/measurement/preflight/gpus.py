"""What NVIDIA's own tool says of driver and GPUs: no torch is needed, and the scheduler's limits are kept."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from lora_spec.errors import MeasurementError

_COMMAND = ("nvidia-smi", "-q", "-x")
_TIMEOUT_S = 120  # a driver that no one has used since the start of the machine takes a while to wake


@dataclass(frozen=True)
class Gpu:
    """One device that this process may use."""

    name: str
    memory_gib: float


@dataclass(frozen=True)
class GpuReport:
    """The driver, the newest CUDA that it speaks (major, minor), and the devices."""

    driver_version: str
    cuda_version: tuple[int, int]
    gpus: tuple[Gpu, ...]


def read_gpus(command: Sequence[str] = _COMMAND) -> GpuReport:
    """Return what the driver says.

    Raises
    ------
    MeasurementError
        There is no driver, it does not answer, or its answer is not understood.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except FileNotFoundError as err:
        raise MeasurementError(f"{command[0]} is not installed") from err
    except (OSError, subprocess.TimeoutExpired, UnicodeError) as err:
        raise MeasurementError(f"{command[0]} does not answer ({type(err).__name__})") from err
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[:200]
        raise MeasurementError(f"{command[0]} ends with code {done.returncode}: {said}")
    return parse_gpus(done.stdout)


def parse_gpus(text: str) -> GpuReport:
    """Return the report in the XML of ``nvidia-smi -q -x``; MeasurementError where it is not one."""
    try:
        root = ElementTree.fromstring(text)
        major, minor = _text(root, "cuda_version").split(".")[:2]
        gpus = tuple(Gpu(_text(gpu, "product_name"), _memory_gib(gpu)) for gpu in root.iter("gpu"))
        return GpuReport(_text(root, "driver_version"), (int(major), int(minor)), gpus)
    except (ElementTree.ParseError, ValueError) as err:
        raise MeasurementError(f"the answer of nvidia-smi is not understood ({err})") from err


def _text(element: ElementTree.Element, path: str) -> str:
    found = element.findtext(path)
    if found is None:
        raise ValueError(f"no {path}")
    return found.strip()


def _memory_gib(gpu: ElementTree.Element) -> float:
    amount, unit = _text(gpu, "fb_memory_usage/total").split()
    if unit != "MiB":
        raise ValueError(f"memory in {unit}")
    return float(amount) / 1024
