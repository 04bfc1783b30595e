"""What the gate is told: depths, tolerances, limits and the load that the headline is about."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lora_spec.errors import ConfigError


@dataclass(frozen=True)
class GateSettings:
    """Fractions in [0, 1]; depths are numbers of speculative tokens.

    Parameters
    ----------
    standing_num_speculative_tokens
        Depth that the fleet runs today.
    candidate_depths
        Depths that a verdict may choose or weigh; holds 0 (off) and the standing depth.
    headline_batch_size
        Load of the headline verdict; None takes a measured one and says so.
    batch_sizes
        Further loads that get a verdict each; empty takes those measured.
    max_green_loss
        Green while the standing depth loses at most this share of goodput to the best shallower depth.
    dead_band
        Speedups within 1 +- this are a tie, and a tie keeps the standing configuration.
    max_interval_loss
        Abstain where, somewhere in the intervals, the chosen depth would lose more than this share of goodput.
    max_acceptance_length_width, max_speedup_width
        Abstain where an interval at the standing depth is wider; None sets no limit.
    max_extrapolation
        Abstain beyond this many times the largest measured batch size, or below the smallest divided by it.
    hot_traffic_share
        From this share of traffic on an adapter is hot.
    default_traffic_share
        Where an adapter's share is not known.
    """

    standing_num_speculative_tokens: int
    candidate_depths: tuple[int, ...]
    headline_batch_size: float | None = None
    batch_sizes: tuple[float, ...] = ()
    max_green_loss: float = 0.03
    dead_band: float = 0.03
    max_interval_loss: float = 0.05
    max_acceptance_length_width: float | None = None
    max_speedup_width: float | None = None
    max_extrapolation: float = 2.0
    hot_traffic_share: float = 0.2
    default_traffic_share: float = 0.0

    def __post_init__(self) -> None:
        standing, depths = self.standing_num_speculative_tokens, self.candidate_depths
        if standing < 1 or standing not in depths or 0 not in depths or min(depths) < 0:
            raise ConfigError(
                f"gate: candidate_depths {list(depths)} must hold 0 (off) and the standing depth {standing} >= 1"
            )
        for name in ("max_green_loss", "dead_band", "max_interval_loss", "hot_traffic_share", "default_traffic_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"gate: {name} is {getattr(self, name)!r}; it is a fraction from 0 to 1")

    @property
    def shallower_depths(self) -> tuple[int, ...]:
        """Return the candidates that a green verdict competes with, 0 first."""
        return tuple(sorted(d for d in set(self.candidate_depths) if d < self.standing_num_speculative_tokens))

    @property
    def rivals(self) -> tuple[int, ...]:
        """Return the candidates that a chosen depth is held against: the shallower ones, then the standing one."""
        return (*self.shallower_depths, self.standing_num_speculative_tokens)

    @property
    def deeper_depths(self) -> tuple[int, ...]:
        """Return the candidates beyond the standing depth."""
        return tuple(sorted(d for d in set(self.candidate_depths) if d > self.standing_num_speculative_tokens))


def gate_settings(gate: Mapping[str, Any]) -> GateSettings:
    """Return the settings that the values of ``gate.yaml`` spell out; its other keys are not the gate's."""
    optional = ("max_interval_loss", "max_acceptance_length_width", "max_speedup_width")
    return GateSettings(
        standing_num_speculative_tokens=gate["standing_num_speculative_tokens"],
        candidate_depths=tuple(gate["candidate_depths"]),
        headline_batch_size=gate["headline_load"]["batch_size"],
        batch_sizes=tuple(gate.get("map_batch_sizes", ())),
        max_green_loss=gate["max_green_loss"],
        dead_band=gate["dead_band"],
        hot_traffic_share=gate["hot_traffic_share"],
        default_traffic_share=gate["default_traffic_share"],
        **{key: gate[key] for key in optional if key in gate},
    )
