"""``vllm serve`` command lines of a plan of pools, as lists of words; quoting is for whoever shows them to a shell.

An engine is started as step times were measured where the cost model says how: number format, lengths, slots.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lora_spec.gate.pools import Pool
from lora_spec.vllm_words import depth_scheduler, draft_model_config

# What --lora-modules takes as NAME=PATH; any other name or path goes in as JSON, which vLLM takes as well.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][^=,{}\x00-\x1f\x7f]*")
# The kernel takes 128 KiB as one word of a command line.
_MAX_WORD_BYTES = 120_000
# Values that vLLM 0.32 takes for --max-lora-rank.
_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)

# What stands under the last name is whole: a merge that was stopped is begun again, not served.
_MERGE = """\
import os, sys, tempfile
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
target, adapter, output = sys.argv[1:]
if os.path.exists(output):
    sys.exit()
os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
model = AutoModelForCausalLM.from_pretrained(target, dtype="auto")
model = PeftModel.from_pretrained(model, adapter).merge_and_unload()
with tempfile.TemporaryDirectory(dir=os.path.dirname(output) or ".", prefix=".merging-") as part:
    model.save_pretrained(os.path.join(part, "model"))
    AutoTokenizer.from_pretrained(target).save_pretrained(os.path.join(part, "model"))
    try:
        os.rename(os.path.join(part, "model"), output)
    except OSError:
        if not os.path.exists(output):  # else another engine of the pool was first
            raise
"""


@dataclass(frozen=True)
class Serving:
    """What the engines serve.

    Parameters
    ----------
    target, drafter
        Model folders or repositories, as vLLM is to be told.
    adapter_paths
        Folder of every adapter.
    weights_sha256
        Of the adapters whose weights the verdicts tell.
    policy_path, merged_dir
        Where the policy file lies, and where merged weights are to be written.
    max_lora_rank
        Largest rank of any adapter.
    max_loras
        Adapters in one batch, at most; None takes as many as step times were measured with, else eight.
    engine
        What the cost model says of the engine that it was timed on.
    """

    target: str
    drafter: str
    adapter_paths: Mapping[str, str]
    policy_path: str
    merged_dir: str
    max_lora_rank: int
    max_loras: int | None = None
    engine: Mapping[str, Any] = field(default_factory=dict)
    first_port: int = 8000
    weights_sha256: Mapping[str, str | None] = field(default_factory=dict)


def pool_command(pool: Pool, serving: Serving, *, port: int) -> list[str]:
    """Return the words that start one engine of a pool."""
    if pool.is_merged:
        (name,) = pool.adapters
        words = ["vllm", "serve", merged_path(pool, serving), f"--served-model-name={name}"]
        return [*words, *_engine_words(serving), "--port", str(port)]
    words = ["vllm", "serve", serving.target, *_engine_words(serving), "--port", str(port)]
    return [
        *words,
        *_speculation_words(pool.num_speculative_tokens, serving),
        *_lora_words(pool.adapters, serving),
    ]


def merge_command(pool: Pool, serving: Serving) -> list[str] | None:
    """Return the words that make a merged pool's weights; None for any other pool."""
    if not pool.is_merged:
        return None
    (name,) = pool.adapters
    return ["python3", "-c", _MERGE, serving.target, serving.adapter_paths[name], merged_path(pool, serving)]


def merged_path(pool: Pool, serving: Serving) -> str:
    """Return where a merged pool's weights lie: elsewhere for another adapter, base or file, whatever the pool's name.

    The folder of a pool that was merged before would be taken for this one's.
    """
    (name,) = pool.adapters
    made_from = [name, serving.target, serving.adapter_paths[name], serving.weights_sha256.get(name)]
    digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:12]
    return f"{serving.merged_dir.rstrip('/')}/{pool.name}-{digest}"


def one_engine_command(adapters: Sequence[str], depth: int, serving: Serving) -> list[str]:
    """Return the words that start one engine which obeys the policy file, every adapter at its own depth."""
    is_async = serving.engine.get("is_async_scheduling", True)
    options = {"policy": serving.policy_path, "adapters": list(adapters)}
    additional = json.dumps({"lora_spec": options})
    if len(additional) > _MAX_WORD_BYTES:  # the engine then takes names on trust
        additional = json.dumps({"lora_spec": {"policy": serving.policy_path}})
    return [
        *("vllm", "serve", serving.target, *_engine_words(serving), "--port", str(serving.first_port)),
        *_speculation_words(depth, serving),
        *("--scheduler-cls", depth_scheduler(is_async=is_async)),
        *("--additional-config", additional),
        *_lora_words(adapters, serving),
    ]


def shell_line(words: Sequence[str]) -> str:
    """Return words as one command of a POSIX shell."""
    return shlex.join(words)


def _engine_words(serving: Serving) -> list[str]:
    """Return how the timed engine was started, as far as it bears on times."""
    flags = {"dtype": "--dtype", "max_model_len": "--max-model-len", "max_num_seqs": "--max-num-seqs"}
    known = {key: serving.engine[key] for key in flags if isinstance(serving.engine.get(key), str | int)}
    words = [word for key, value in known.items() for word in (flags[key], str(value))]
    return [*words, *(["--enforce-eager"] if serving.engine.get("enforce_eager") is True else [])]


def _speculation_words(depth: int, serving: Serving) -> list[str]:
    if not depth:
        return []
    return ["--speculative-config", json.dumps(draft_model_config(serving.drafter, depth))]


def _lora_words(adapters: Sequence[str], serving: Serving) -> list[str]:
    if not adapters:
        return []
    timed = serving.engine.get("max_loras")
    slots = serving.max_loras or (timed if isinstance(timed, int) and timed > 0 else 8)
    rank = next((rank for rank in _LORA_RANKS if rank >= serving.max_lora_rank), serving.max_lora_rank)
    words = ["--enable-lora", "--max-loras", str(min(slots, len(adapters))), "--max-lora-rank", str(rank)]
    return [*words, "--lora-modules", *(_module(name, serving.adapter_paths[name]) for name in adapters)]


def _module(name: str, path: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and "," not in path:
        return f"{name}={path}"
    return json.dumps({"name": name, "path": path})
