"""Acceptance of an n-gram drafter along recorded trajectories, by vLLM's rule for what it drafts.

vLLM's own look-up is not imported: it loads numba, and vLLM 0.32 cannot start another engine in a process that has
(its kernel dispatcher stumbles over llvmlite). A test holds this one to it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lora_spec.engines.base import ReplayedSteps, Replayer, Trajectory


def drafted_by_lookup(
    text: NDArray[np.int32], *, min_ngram: int, max_ngram: int, num_speculative_tokens: int
) -> NDArray[np.int32]:
    """Return the tokens after the earliest occurrence of the longest n-gram that also ends the text; empty if none.

    References: vLLM 0.32, ``vllm/v1/spec_decode/ngram_proposer.py``; Saxena 2023, "Prompt Lookup Decoding".
    """
    for size in range(min(max_ngram, len(text) - 1), min_ngram - 1, -1):
        windows = np.lib.stride_tricks.sliding_window_view(text[:-1], size)
        matches = np.flatnonzero((windows == text[-size:]).all(axis=1))
        if len(matches):
            start = matches[0] + size
            return text[start : start + num_speculative_tokens]
    return text[:0]


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
        self._min, self._max, self._max_model_len = prompt_lookup_min, prompt_lookup_max, max_model_len

    def replay(self, trajectories: Sequence[Trajectory], depths: Sequence[int]) -> list[list[ReplayedSteps]]:
        """Return the steps at every depth; a step without a match drafts nothing."""
        return [[self._steps(trajectory, depth) for depth in depths] for trajectory in trajectories]

    def _steps(self, trajectory: Trajectory, depth: int) -> ReplayedSteps:
        text = np.array(
            trajectory.prompt_token_ids + trajectory.output_token_ids + trajectory.overrun_token_ids, dtype=np.int32
        )
        # Output token 0 comes from the prefill and belongs to no step.
        position, end = len(trajectory.prompt_token_ids) + 1, len(text) - len(trajectory.overrun_token_ids)
        drafted, accepted = [], []
        while position < end:
            draft = self._draft(text[:position], depth)
            agrees = draft == text[position : position + len(draft)]
            accepted.append(len(draft) if agrees.all() else int(np.argmin(agrees)))
            drafted.append(len(draft))
            position += accepted[-1] + 1
        return ReplayedSteps(depth, tuple(drafted), tuple(accepted))

    def _draft(self, text: NDArray[np.int32], depth: int) -> NDArray[np.int32]:
        room = min(depth, self._max_model_len - len(text))
        return drafted_by_lookup(text, min_ngram=self._min, max_ngram=self._max, num_speculative_tokens=max(0, room))
