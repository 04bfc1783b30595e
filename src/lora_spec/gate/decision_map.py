"""The best action over a grid of acceptance and load, without any adapter: what the cost model alone implies."""

from collections.abc import Sequence
from dataclasses import dataclass

from lora_spec.cost_model.break_even import iid_acceptance_length
from lora_spec.cost_model.model import CostModel
from lora_spec.gate.actions import choose
from lora_spec.gate.settings import GateSettings
from lora_spec.records import Action


@dataclass(frozen=True)
class MapCell:
    """One point of the map; ``acceptance_length`` is at the standing depth, ``speedup`` at the chosen one."""

    token_acceptance_prob: float
    acceptance_length: float
    batch_size: float
    num_speculative_tokens: int
    action: Action
    speedup: float


def decision_map(
    cost_model: CostModel,
    settings: GateSettings,
    *,
    token_acceptance_probs: Sequence[float],
    batch_sizes: Sequence[float] = (),
) -> tuple[MapCell, ...]:
    """Return the choice at every point, by batch size, then acceptance.

    Acceptance is one number alpha per point, the same at every position: E_K = (1 - alpha^(K+1)) / (1 - alpha). Real
    acceptance falls with the position, so that an adapter may be amber where the map at its length is still green.

    Parameters
    ----------
    batch_sizes
        Empty takes those of the settings, and where there are none, those measured.
    """
    sizes = batch_sizes or settings.batch_sizes or cost_model.batch_sizes
    ratios = {
        size: {k: cost_model.time_ratio(k, size).estimate for k in set(settings.candidate_depths)} for size in sizes
    }
    return tuple(_cell(alpha, size, ratios[size], settings) for size in sizes for alpha in token_acceptance_probs)


def _cell(alpha: float, batch_size: float, ratios: dict[int, float], settings: GateSettings) -> MapCell:
    speedups = {depth: iid_acceptance_length(alpha, depth) * ratio for depth, ratio in ratios.items()}
    choice = choose(speedups, settings)
    return MapCell(
        token_acceptance_prob=alpha,
        acceptance_length=iid_acceptance_length(alpha, settings.standing_num_speculative_tokens),
        batch_size=batch_size,
        num_speculative_tokens=choice.num_speculative_tokens,
        action=choice.action,
        speedup=speedups[choice.num_speculative_tokens],
    )
