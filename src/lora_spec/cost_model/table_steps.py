"""Steps of one batch size whose requests draft differently deep, from the table of steps that all draft alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.model import CostModel
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.errors import ConfigError, ResultError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TableSteps:
    """A :class:`~lora_spec.cost_model.step_cost.StepCost` of decode steps of one batch size B.

    A step lasts as long as the table says of B requests that all draft as deep as the deepest one, less the
    verification of the tokens that the others do not draft:

        T(d_1..d_B) = T_m(B) - verify_per_token * sum_i (m - d_i),  m = max d_i

    The drafter runs m passes over all requests whatever their depths, as in vLLM. Mixed depths were not timed for the
    table: the saving is a fitted part, of :mod:`lora_spec.cost_model.parts` where nothing else is known; prompts and
    contexts are those that the table was timed at.

    Parameters
    ----------
    alike_ms
        T_0(B) to T_K(B), shape ``(K + 1,)``.
    token_ms
        ``verify_per_token``.
    """

    batch_size: int
    alike_ms: Array
    token_ms: float

    def __post_init__(self) -> None:
        shallowest = self.alike_ms - self.token_ms * np.arange(len(self.alike_ms)) * (self.batch_size - 1)
        if self.batch_size < 1 or self.token_ms < 0 or min(shallowest) <= 0:
            raise ResultError(
                f"batch size {self.batch_size}: a step of mixed depths would take {min(shallowest):.3g} ms by "
                f"{self.token_ms:.3g} ms per verified token; fit the cost model and the parts of a step again"
            )

    @classmethod
    def of(
        cls,
        cost_model: CostModel,
        batch_size: int,
        *,
        max_depth: int,
        token_ms: float | None = None,
        draw: int | None = None,
    ) -> "TableSteps":
        """Return the steps at a batch size, by the estimates or by one bootstrap draw of the step times.

        Parameters
        ----------
        token_ms
            None takes the cost model's own, :func:`table_token_ms`.

        Raises
        ------
        ConfigError
            The cost model lacks a depth, or cannot tell times at this batch size.
        ResultError
            It does not say what verifying a token takes.
        """
        spared = table_token_ms(cost_model) if token_ms is None else token_ms
        times = []
        for depth in range(max_depth + 1):
            median, draws = cost_model.step_time_draws(depth, batch_size, num_draws=0 if draw is None else draw + 1)
            times.append(median if draw is None else draws[draw])
        return cls(batch_size, np.array(times), spared)

    @property
    def max_depth(self) -> int:
        """Return the deepest K."""
        return len(self.alike_ms) - 1

    def taxed(self, tax: float) -> "TableSteps":
        """Return the same where a step in which nobody drafts takes longer by this share."""
        alike = self.alike_ms.copy()
        alike[0] *= 1 + tax
        return replace(self, alike_ms=alike)

    def step_ms(self, depths: Sequence[int], *, num_prefill_tokens: int = 0, num_context_tokens: int = 0) -> float:
        """Return how long one decode step lasts, in ms; the context is the table's, whatever is asked.

        Raises
        ------
        ConfigError
            Not as many requests as the batch size, prompt tokens, or a depth that the table does not hold.
        """
        if (
            len(depths) != self.batch_size
            or num_prefill_tokens
            or not 0 <= min(depths) <= max(depths) < len(self.alike_ms)
        ):
            raise ConfigError(
                f"no step of the table has depths {list(depths)} and {num_prefill_tokens} prompt tokens; it holds "
                f"decode steps of {self.batch_size} requests up to K={self.max_depth}"
            )
        deepest = max(depths)
        return float(self.alike_ms[deepest] - self.token_ms * (deepest * len(depths) - sum(depths)))

    def mean_step_ms(self, places: Array, depths: NDArray[np.int64]) -> Array:
        """Return the mean step of batches whose B requests are drawn one by one, in closed form.

        Parameters
        ----------
        places
            How likely a request of the batch is each adapter's, shape ``(..., adapters)``; adds up to 1.
        depths
            Of each adapter, same shape.
        """
        ladder = np.arange(len(self.alike_ms))
        # P(all B requests draft at most m) is the B-th power of one request's.
        at_most = (places[..., None] * (depths[..., None] <= ladder)).sum(axis=-2) ** self.batch_size
        is_deepest = np.diff(at_most, axis=-1, prepend=0.0)
        spared = is_deepest @ ladder - (places * depths).sum(axis=-1)
        return is_deepest @ self.alike_ms - self.token_ms * self.batch_size * spared

    def adapter_load_ms(self, lora_rank: int) -> float:
        """Refuse: the table holds no loads."""
        raise ConfigError(f"rank {lora_rank}: the table of step times holds no adapter loads; fit the parts of a step")


def table_token_ms(cost_model: CostModel) -> float:
    """Return what verifying one more token of one request takes, by the parts that the table was pulled to.

    Raises
    ------
    ResultError
        The cost model does not hold them.
    """
    parts = cost_model.context.get("parts")
    if not isinstance(parts, Mapping) or "verify_per_token_ms" not in parts:
        raise ResultError("cost model: says nothing of the parts of a step; fit it again")
    return float(parts["verify_per_token_ms"])


def spared_token_ms(step_cost: StepCostModel) -> float:
    """Return the same by parts that were fitted to steps of mixed depths, among others."""
    both = {"num_prefill_tokens": 0, "num_context_tokens": 0}
    return step_cost.step_ms([2, 2], **both) - step_cost.step_ms([2, 1], **both)
