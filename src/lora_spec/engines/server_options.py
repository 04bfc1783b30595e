"""The command line and the environment of a vLLM OpenAI server; builds words, starts nothing."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lora_spec.engines.vllm_environment import vllm_environment
from lora_spec.errors import EngineError
from lora_spec.vllm_words import depth_scheduler, draft_model_config


@dataclass(frozen=True)
class ServerOptions:
    """What one server is started with.

    Parameters
    ----------
    target, drafter
        Model folders; without a drafter the engine cannot speculate.
    num_speculative_tokens
        The largest depth, and the one in force without a policy.
    adapters
        Folder by the name that requests ask for.
    max_loras, max_cpu_loras
        Adapters that can share a batch, and that are kept in memory (None: as many as share a batch).
    policy
        Policy file that the scheduler watches; without one vLLM's own scheduler runs.
    is_depth_controlled
        Run our scheduler also without a policy, for its counters by adapter.
    kv_cache_gib
        Memory of the key-value cache, GiB (CPU only).
    max_num_batched_tokens, num_cache_blocks
        Tokens of one step, and blocks of the cache in place of those that its memory holds; None leaves both to vLLM.
    structured_outputs
        vLLM's ``--structured-outputs-config``; None leaves it to vLLM.
    is_lora_updatable
        Let clients load and unload adapters while the server runs: for trusted clients alone.
    environment
        Further environment variables, in place of the user's own.
    """

    target: Path
    adapters: Mapping[str, Path] = field(default_factory=dict)
    drafter: Path | None = None
    num_speculative_tokens: int = 0
    dtype: str = "bfloat16"
    max_model_len: int = 512
    max_num_seqs: int = 16
    max_loras: int = 8
    max_cpu_loras: int | None = None
    max_lora_rank: int = 16
    policy: Path | None = None
    is_depth_controlled: bool = False
    is_async_scheduling: bool = False
    is_eager: bool = True
    kv_cache_gib: int = 1
    max_num_batched_tokens: int | None = None
    num_cache_blocks: int | None = None
    structured_outputs: Mapping[str, str | bool] | None = None
    is_lora_updatable: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.drafter is None) != (self.num_speculative_tokens == 0):
            raise EngineError("a drafter and num_speculative_tokens >= 1 go together: give both or neither")
        if self.policy is not None and self.drafter is None:
            raise EngineError("a policy needs an engine that can speculate: give a drafter and num_speculative_tokens")


SERVED_MODEL = "base"
"""Name under which the unadapted target is served."""


def server_command(options: ServerOptions, *, port: int) -> list[str]:
    """Return the words that start the server on the loopback interface.

    The console script of the CPU build stops for want of package metadata, so the module is run.
    """
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    words += ["--model", str(options.target), "--served-model-name", SERVED_MODEL]
    words += ["--host", "127.0.0.1", "--port", str(port)]
    words += ["--dtype", options.dtype, "--max-model-len", str(options.max_model_len)]
    words += ["--max-num-seqs", str(options.max_num_seqs), "--seed", str(options.seed)]
    words += ["--no-enable-prefix-caching"]  # what a prompt costs must not hang on who came before
    words += ["--enforce-eager"] if options.is_eager else []
    for flag, value in (
        ("--max-num-batched-tokens", options.max_num_batched_tokens),
        ("--num-gpu-blocks-override", options.num_cache_blocks),
        ("--structured-outputs-config", options.structured_outputs and json.dumps(dict(options.structured_outputs))),
    ):
        words += [] if value is None else [flag, str(value)]
    words += _lora_words(options)
    words += _speculation_words(options)
    return words


def _lora_words(options: ServerOptions) -> list[str]:
    if not options.adapters:
        return []
    words = ["--enable-lora", "--max-loras", str(options.max_loras), "--max-lora-rank", str(options.max_lora_rank)]
    words += [] if options.max_cpu_loras is None else ["--max-cpu-loras", str(options.max_cpu_loras)]
    modules = [json.dumps({"name": name, "path": str(path)}) for name, path in sorted(options.adapters.items())]
    return [*words, "--lora-modules", *modules]


def _speculation_words(options: ServerOptions) -> list[str]:
    if options.drafter is None:
        return []
    config = draft_model_config(str(options.drafter), options.num_speculative_tokens)
    words = ["--speculative-config", json.dumps(config)]
    words += ["--async-scheduling" if options.is_async_scheduling else "--no-async-scheduling"]
    if options.policy is None and not options.is_depth_controlled:
        return words
    words += ["--scheduler-cls", depth_scheduler(is_async=options.is_async_scheduling)]
    told = {"adapters": sorted(options.adapters)}
    told |= {} if options.policy is None else {"policy": str(options.policy)}
    return [*words, "--additional-config", json.dumps({"lora_spec": told})]


def server_environment(options: ServerOptions, *, metrics_dir: Path) -> dict[str, str]:
    """Return the environment variables; counters of the scheduler's process reach ``/metrics`` by ``metrics_dir``."""
    found = vllm_environment(kv_cache_gib=options.kv_cache_gib, is_in_process=False) | dict(options.environment)
    updating = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"} if options.is_lora_updatable else {}
    return found | updating | {"PROMETHEUS_MULTIPROC_DIR": str(metrics_dir)}
