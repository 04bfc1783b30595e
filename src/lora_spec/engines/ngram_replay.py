"""Acceptance of vLLM's n-gram drafter along recorded trajectories, by vLLM's own look-up function."""

from collections.abc import Sequence

import numpy as np

from lora_spec.engines.base import ReplayedSteps, Replayer, Trajectory
from lora_spec.engines.vllm_environment import import_vllm


class NgramReplayer(Replayer):
    """Drafts what followed the longest earlier match of the last tokens, prompt included; needs no drafter.

    Parameters
    ----------
    prompt_lookup_min, prompt_lookup_max
        Shortest and longest n-gram that is looked for, as in vLLM's ``speculative_config``.
    max_model_len
        The engine's, beyond which nothing is drafted.
    """

    def __init__(self, *, prompt_lookup_min: int = 2, prompt_lookup_max: int = 4, max_model_len: int = 512) -> None:
        import_vllm(kv_cache_gib=1)
        # Not public, and pinned by the version check: the same function makes exact what a copy would only resemble.
        from vllm.v1.spec_decode.ngram_proposer import _find_longest_matched_ngram_and_propose_tokens

        self._find = _find_longest_matched_ngram_and_propose_tokens
        self._min, self._max, self._max_model_len = prompt_lookup_min, prompt_lookup_max, max_model_len

    def replay(self, trajectories: Sequence[Trajectory], depths: Sequence[int]) -> list[list[ReplayedSteps]]:
        """Return the steps at every depth; a step without a match drafts nothing."""
        return [[self._steps(trajectory, depth) for depth in depths] for trajectory in trajectories]

    def _steps(self, trajectory: Trajectory, depth: int) -> ReplayedSteps:
        text = np.array(
            trajectory.prompt_token_ids + trajectory.output_token_ids + trajectory.overrun_token_ids, dtype=np.int32
        )
        # Output token 0 comes from the prefill and belongs to no step.
        position, end = (
            len(trajectory.prompt_token_ids) + 1,
            len(text) - len(trajectory.overrun_token_ids),
        )
        drafted, accepted = [], []
        while position < end:
            draft = self._find(text[:position], self._min, self._max, self._max_model_len, depth)
            agrees = draft == text[position : position + len(draft)]
            accepted.append(len(draft) if agrees.all() else int(np.argmin(agrees)))
            drafted.append(len(draft))
            position += accepted[-1] + 1
        return ReplayedSteps(depth, tuple(drafted), tuple(accepted))
