"""What must be true before vLLM is imported: environment variables and the tested version. Imports vLLM lazily."""

import os
from typing import Any

from lora_spec.errors import EngineError

SUPPORTED_VLLM_VERSIONS = ("0.32.0",)


def usable_cores() -> list[int]:
    """Return the cores this process may run on."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def vllm_environment(*, kv_cache_gib: int, is_in_process: bool) -> dict[str, str]:
    """Return the environment variables for vLLM, those the user has set excepted.

    Without an explicit binding vLLM keeps one core for itself, which is half of a two-core machine.
    """
    wanted = {
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, usable_cores())),
        "VLLM_CPU_KVCACHE_SPACE": str(kv_cache_gib),
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    kept = {name: os.environ.get(name, value) for name, value in wanted.items()}
    # The scheduler and the step loop are driven from this process, so this one is not the user's to choose.
    return kept | ({"VLLM_ENABLE_V1_MULTIPROCESSING": "0"} if is_in_process else {})


def import_vllm(*, kv_cache_gib: int) -> Any:
    """Set the environment, import vLLM and refuse a version whose inner interfaces were not tested.

    Raises
    ------
    EngineError
        vLLM is of another version.
    """
    os.environ.update(vllm_environment(kv_cache_gib=kv_cache_gib, is_in_process=True))
    import vllm

    if vllm.__version__ not in SUPPORTED_VLLM_VERSIONS:
        raise EngineError(
            f"vLLM {vllm.__version__} is installed, tested is {', '.join(SUPPORTED_VLLM_VERSIONS)}: counters and "
            "scheduling are not public interfaces; install the pinned serving environment"
        )
    return vllm
