"""The arithmetic of speculative steps along a known greedy trajectory. Knows no model.

Under greedy decoding a drafted token is accepted exactly if it is the target's own next token. As long as the drafts
of a step agree, the drafter has the trajectory itself as its context, so one vector of agreements decides the
acceptance of every step at every depth.
"""

import numpy as np

from lora_spec.errors import EngineError


def accepted_per_step(matches: np.ndarray, num_output_tokens: int, num_speculative_tokens: int) -> tuple[int, ...]:
    """Return the accepted drafts of every verify step, as vLLM 0.32 counts them.

    The rule, from vLLM's scheduler: (1) output token 0 comes from the prefill and belongs to no step; (2) while the
    output is neither at the cap nor ended, a step drafts K tokens, always all of them, accepts the longest agreeing
    prefix and adds the target's next token; (3) acceptance is counted before the new tokens are cut at the end token
    or the cap, so the last step also counts drafts that agree with the target's continuation past the end.

    Parameters
    ----------
    matches
        Bool vector over output tokens and at least K - 1 overrun tokens: entry i says whether the drafter ranks
        token i first, given all tokens before it.
    num_output_tokens
        Delivered tokens, the end token included.
    num_speculative_tokens
        K, at least 1.

    Raises
    ------
    EngineError
        The last step judges tokens past the end of ``matches``.
    """
    accepted = []
    position = 1
    while position < num_output_tokens:
        judged = matches[position : position + num_speculative_tokens]
        agreeing = len(judged) if judged.all() else int(np.argmin(judged))
        if agreeing == len(judged) < num_speculative_tokens:
            raise EngineError(
                f"the trajectory ends at token {len(matches)} inside a verify step from {position} at depth "
                f"{num_speculative_tokens}; record at least {num_speculative_tokens} tokens past its end"
            )
        accepted.append(agreeing)
        position += agreeing + 1
    return tuple(accepted)
