"""From a cell's axis values to the options that vLLM is started with. Imports no vLLM."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CellEngine:
    """What is the same for all cells of a run: models, sizes, seed."""

    target: str
    drafter: str
    dtype: str
    max_model_len: int
    max_num_seqs: int
    max_lora_rank: int
    block_size: int
    chunk_tokens: int
    num_speculative_tokens: int
    ngram_lookup_tokens: int
    seed: int
    gpu_memory_utilization: float | None = None

    def options(self, axes: Mapping[str, Any], *, max_loras: int) -> dict[str, Any]:
        """Return keyword arguments of ``vllm.LLM``; with ``max_loras=0`` LoRA is off."""
        chosen: dict[str, Any] = {
            "model": self.target,
            "dtype": self.dtype,
            "seed": self.seed,
            "max_model_len": self.max_model_len,
            "max_num_seqs": self.max_num_seqs,
            "block_size": self.block_size,
            "enable_prefix_caching": axes["prefix_caching"],
            "enable_chunked_prefill": axes["chunked_prefill"],
            "max_num_batched_tokens": self._token_budget(axes),
            "enforce_eager": axes["execution"] == "eager",
            "async_scheduling": axes["scheduling"] == "async",
            "disable_log_stats": False,
        }
        if self.gpu_memory_utilization is not None:
            chosen["gpu_memory_utilization"] = self.gpu_memory_utilization
        if max_loras:
            chosen |= {"enable_lora": True, "max_loras": max_loras, "max_lora_rank": self.max_lora_rank}
        if axes["method"] != "none":
            chosen["speculative_config"] = self._speculation(axes["method"], axes["sampler"])
        return chosen

    def _token_budget(self, axes: Mapping[str, Any]) -> int:
        # Without chunks a step must take a whole prompt, and should take the verify steps of all others beside it.
        whole = self.max_model_len + self.max_num_seqs * (self.num_speculative_tokens + 2)
        return self.chunk_tokens if axes["chunked_prefill"] else whole

    def _speculation(self, method: str, sampler: str) -> dict[str, Any]:
        asked: dict[str, Any] = {"method": method, "num_speculative_tokens": self.num_speculative_tokens}
        if method == "draft_model":
            is_sampled = sampler == "temperature_probabilistic_drafts"
            asked |= {"model": self.drafter, "draft_sample_method": "probabilistic" if is_sampled else "greedy"}
        if method == "ngram":
            asked |= {"prompt_lookup_min": self.ngram_lookup_tokens, "prompt_lookup_max": self.ngram_lookup_tokens}
        return asked
