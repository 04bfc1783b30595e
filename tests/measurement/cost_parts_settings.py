"""A small ``cost_parts`` block for tests."""

from typing import Any


def _cells(context, batch_sizes, depths, mixes, prompts, ranks) -> dict[str, Any]:
    return {
        "decode": [{"num_context_tokens": context, "batch_sizes": batch_sizes, "depths": depths}],
        "mixed": [{"num_context_tokens": context, "batch_sizes": [3], "mixes": mixes}],
        "prefill": {"num_prompt_tokens": prompts, "num_context_tokens": context, "batch_sizes": [2], "depths": [0, 2]},
        "no_drafter": {"num_context_tokens": context, "batch_sizes": batch_sizes, "depths": [0]},
        "no_lora": {"num_context_tokens": context, "batch_sizes": batch_sizes, "depths": [0, 2]},
        "load_ranks": ranks,
    }


def small_settings() -> dict[str, Any]:
    """Return settings as the config gives them, with 42 + 30 cells that a fit can tell apart."""
    return {
        "fit": _cells(8, [1, 4], [0, 1, 2], [[0, 2]], [6, 20], [2, 8]),
        "validation": _cells(12, [2], [0, 1, 2], [[1, 2]], [10], [4]),
        "num_trials": 3,
        "num_steps": 2,
        "num_warmup_steps": 1,
        "max_other_cores": 1000.0,
        "max_wait_s": 60.0,
        "seed": 0,
    }
