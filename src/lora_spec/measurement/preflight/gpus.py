"""What NVIDIA's own tool says of driver and GPUs: no torch is needed, but what a scheduler hides may be told too."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from lora_spec.errors import MeasurementError

_COMMAND = ("nvidia-smi", "-q", "-x")
_TIMEOUT_S = 120  # a driver that no one has used since the start of the machine takes a while to wake


@dataclass(frozen=True)
class Gpu:
    """One device; memory is None where nobody tells, as of a device that is split (MIG) or shares the machine's."""

    name: str
    memory_gib: float | None


@dataclass(frozen=True)
class GpuReport:
    """The driver, the newest CUDA that it speaks (major, minor; None where it does not tell), and all devices."""

    driver_version: str
    cuda_version: tuple[int, int] | None
    gpus: tuple[Gpu, ...]


def read_gpus(command: Sequence[str] = _COMMAND) -> GpuReport:
    """Return what the driver says.

    Raises
    ------
    MeasurementError
        There is no driver, it does not answer, or its answer is not understood.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except FileNotFoundError as err:
        raise MeasurementError(f"{command[0]} is not installed") from err
    except (OSError, subprocess.TimeoutExpired) as err:
        raise MeasurementError(f"{command[0]} does not answer ({type(err).__name__})") from err
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[:200]
        raise MeasurementError(f"{command[0]} ends with code {done.returncode}: {said}")
    return parse_gpus(done.stdout)


def parse_gpus(text: str) -> GpuReport:
    """Return the report in the XML of ``nvidia-smi -q -x``; MeasurementError where it is not one.

    Warnings of hardware stand before or behind the XML, on the same stream.
    """
    found = re.search(r"<nvidia_smi_log>.*</nvidia_smi_log>", text, re.DOTALL)
    try:
        root = ElementTree.fromstring(found[0] if found else text)
        gpus = tuple(Gpu(_text(gpu, "product_name"), _memory_gib(gpu)) for gpu in root.iter("gpu"))
        return GpuReport(_text(root, "driver_version"), _cuda_version(root), gpus)
    except (ElementTree.ParseError, ValueError) as err:
        raise MeasurementError(f"the answer of nvidia-smi is not understood ({err})") from err


def _text(element: ElementTree.Element, path: str) -> str:
    found = element.findtext(path)
    if found is None:
        raise ValueError(f"no {path}")
    return found.strip()


def _cuda_version(root: ElementTree.Element) -> tuple[int, int] | None:
    """Return what the driver speaks; ``N/A`` or ``Not Found`` where its CUDA library is not there."""
    found = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)*", root.findtext("cuda_version", "").strip(), re.ASCII)
    return None if found is None else (int(found[1]), int(found[2]))


def _memory_gib(gpu: ElementTree.Element) -> float | None:
    is_split = gpu.findtext("mig_mode/current_mig", "").strip() == "Enabled"  # then a job gets a part, not what is told
    told = re.fullmatch(r"([\d.]+) (\S+)", gpu.findtext("fb_memory_usage/total", "").strip(), re.ASCII)
    if is_split or told is None:
        return None
    if told[2] != "MiB":
        raise ValueError(f"memory in {told[2]}")
    return float(told[1]) / 1024
