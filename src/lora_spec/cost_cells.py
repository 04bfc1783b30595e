"""What the campaign that times the parts of a step records: steps of any mix, and steps that load an adapter."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lora_spec.errors import MeasurementError

CellUse = Literal["fit", "validation"]
EngineArm = Literal["served", "no_drafter", "no_lora"]
"""``served``: LoRA and a drafter that runs even at depth 0, as ``vllm serve`` has them; the others were started without
one of the two."""


@dataclass(frozen=True)
class CostCell:
    """Wall times of single engine steps of one make-up, in one trial.

    Parameters
    ----------
    use
        What the cell was timed for; a cell for validation is never fitted.
    depths
        Drafted tokens K of every decoding request; empty where a prompt is computed alone.
    num_prompt_tokens
        Prompt tokens that each decoding request began with: the cells of one running batch share it.
    num_prefill_tokens
        Prompt tokens computed in the step itself, 0 if none.
    num_context_tokens
        Tokens in the cache of the decoding requests, summed over them, in the middle of the timed steps.
    """

    use: CellUse
    arm: EngineArm
    depths: tuple[int, ...]
    num_prompt_tokens: int
    num_prefill_tokens: int
    num_context_tokens: int
    lora_rank: int
    trial: int
    step_ms: tuple[float, ...]
    load_before: float
    load_after: float

    def __post_init__(self) -> None:
        where = f"cost cell {self.arm}, depths {list(self.depths)}, trial {self.trial}"
        counts = (self.num_prompt_tokens, self.num_prefill_tokens, self.num_context_tokens, self.lora_rank, self.trial)
        if min(counts) < 0 or min(self.depths, default=0) < 0 or not (self.depths or self.num_prefill_tokens):
            raise MeasurementError(f"{where}: no step can be so; time it again")
        if self.arm == "no_drafter" and any(self.depths):
            raise MeasurementError(f"{where}: an engine without a drafter cannot draft; time it again")
        if (self.lora_rank == 0) != (self.arm == "no_lora"):
            raise MeasurementError(f"{where}: rank {self.lora_rank} does not go with this engine; time it again")
        if not self.step_ms or not all(0 < step < math.inf for step in self.step_ms):
            raise MeasurementError(f"{where}: no steps, or a step of no duration; time it again")

    @property
    def make_up(self) -> tuple[EngineArm, tuple[int, ...], int, int]:
        """Return what makes two cells the same but for the trial."""
        return self.arm, tuple(sorted(self.depths)), self.num_prompt_tokens, self.num_prefill_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class AdapterLoadCell:
    """One short prompt computed three times with one adapter: first use, from CPU memory, and once it has its slot.

    What loading costs is the difference to ``loaded_ms``, since the rest of the step is the same.
    """

    use: CellUse
    lora_rank: int
    trial: int
    first_use_ms: float
    from_memory_ms: float
    loaded_ms: float

    def __post_init__(self) -> None:
        times = (self.first_use_ms, self.from_memory_ms, self.loaded_ms)
        if self.lora_rank < 1 or self.trial < 0 or not all(0 < time < math.inf for time in times):
            raise MeasurementError(
                f"adapter load at rank {self.lora_rank}, trial {self.trial}: {times} ms is impossible; time it again"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)
