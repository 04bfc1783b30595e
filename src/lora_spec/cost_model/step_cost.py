"""What a simulator or a planner asks of a cost model: how long is this step, how long does that adapter load."""

from collections.abc import Sequence
from typing import Protocol


class StepCost(Protocol):
    """Times of single engine steps, LoRA on, in ms."""

    def step_ms(self, depths: Sequence[int], *, num_prefill_tokens: int, num_context_tokens: int) -> float:
        """Return how long one engine step lasts.

        Parameters
        ----------
        depths
            Drafted tokens K of every decoding request of the batch, one entry each, 0 for one that drafts nothing;
            empty where the step only prefills. The drafter runs as deep as the deepest; the target verifies
            K + 1 tokens of each.
        num_prefill_tokens
            Prompt tokens that this step computes beside them, over all prefilling requests; 0 if none.
        num_context_tokens
            Tokens in the cache of the decoding requests, summed over them.
        """
        ...

    def adapter_load_ms(self, lora_rank: int) -> float:
        """Return how long the engine stands still while it reads an adapter of this rank that it does not hold."""
        ...
