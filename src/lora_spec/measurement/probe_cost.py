"""What a calibration probe of fewer prompts would have cost, between two bounds, from the record of all of them.

Texts are written in one batch, so half of the prompts do not take half of the time: the cost of a batch lies between
a cost per token (bound below) and a cost per step whatever the number of texts in it (bound above). Readers read one
text after the other, so their time follows the tokens they read. The adapter is merged once for the writer and once
for the reader of the adapted target; a direct probe needs the first only, half of it or all of it. Loading the models
is no part.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lora_spec.calibration_record import DIRECT_PROBE_PARTS, CalibrationPrompt, CalibrationRecord

ASSUMED = (
    "per adapter, models loaded; writing N texts costs between its share of the tokens and its share of the steps of "
    "the batch of all; reading costs its share of the tokens read; merging does not shrink, and is half or all of the "
    "recorded in a direct probe"
)
_MERGE, _WRITE = "merge", "trajectories"


@dataclass(frozen=True)
class CostBounds:
    """Least and most that something cost, in seconds on the wall and of all cores together."""

    lower_wall_s: float
    upper_wall_s: float
    lower_cpu_s: float
    upper_cpu_s: float


def cost_of_all_signals(record: CalibrationRecord, num_prompts: int) -> CostBounds:
    """Return what every signal of the first N prompts costs; raises MeasurementError where there are fewer."""
    return _cost(record, num_prompts, dict.fromkeys(record.cost_by_part, (1.0, 1.0)))


def cost_of_direct_probe(record: CalibrationRecord, num_prompts: int) -> CostBounds:
    """Return what the drafter's acceptance alone costs: no base, no reader of the adapted target, no comparison."""
    return _cost(record, num_prompts, {**dict.fromkeys(DIRECT_PROBE_PARTS, (1.0, 1.0)), _MERGE: (0.5, 1.0)})


def mean_cost(costs: Sequence[CostBounds]) -> CostBounds:
    """Return the mean over adapters."""
    return CostBounds(*(sum(getattr(cost, name) for cost in costs) / len(costs) for name in CostBounds.__annotations__))


def _cost(record: CalibrationRecord, num_prompts: int, needed: dict[str, tuple[float, float]]) -> CostBounds:
    bounds = {}
    for kind in ("wall_s", "cpu_s"):
        for end, name in enumerate(("lower", "upper")):
            bounds[f"{name}_{kind}"] = sum(
                getattr(record.cost_by_part[part], kind) * share[end] * _shares(record, num_prompts, part)[end]
                for part, share in needed.items()
            )
    return CostBounds(**bounds)


def _shares(record: CalibrationRecord, num_prompts: int, part: str) -> tuple[float, float]:
    """Return the least and the largest share of a part's cost that the first N prompts can have had."""
    some, every = record.first(num_prompts), record.prompts
    if part == _MERGE:
        return 1.0, 1.0
    if part == _WRITE:
        return _written(some) / _written(every), _longest(some) / _longest(every)
    share = _read(some) / _read(every)
    return share, share


def _written(prompts: Sequence[CalibrationPrompt]) -> int:
    return sum(prompt.num_positions for prompt in prompts)


def _longest(prompts: Sequence[CalibrationPrompt]) -> int:
    return max(prompt.num_positions for prompt in prompts)


def _read(prompts: Sequence[CalibrationPrompt]) -> int:
    return sum(prompt.num_prompt_tokens + prompt.num_positions for prompt in prompts)
