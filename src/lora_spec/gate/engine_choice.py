"""Whether the engine of a policy should have a drafter at all.

A verdict weighs its adapter alone. In one engine, whoever is off pays for being able to draft, and everybody waits for
the deepest drafts of a step; a few adapters that gain little may cost the others more than that. Asked of the whole
mix, by the verdicts' own estimates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lora_spec.cost_model.mix_goodput import goodputs
from lora_spec.cost_model.model import CostModel
from lora_spec.cost_model.table_steps import TableSteps
from lora_spec.errors import ConfigError
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.printing import printable
from lora_spec.regular_file import read_regular_file
from lora_spec.results import MAX_JSON_BYTES
from lora_spec.strict_json import StrictJsonError, parse_own
from lora_spec.typed import FleetName, check_type


@dataclass(frozen=True)
class DraftingGain:
    """What one engine that obeys a policy makes, over one of the same adapters without a drafter.

    Parameters
    ----------
    goodput_ratio
        Tokens per second of the first over those of the second, every batch place taken. An estimate without interval.
    num_abstained
        Adapters whose verdict abstains: they count by estimates that the gate itself did not trust.
    unknown_adapters
        Adapters that no estimate is known of; the ratio is of the others alone.
    """

    batch_size: int
    goodput_ratio: float
    num_adapters: int
    num_abstained: int
    unknown_adapters: tuple[str, ...] = ()

    @property
    def is_drafter_worth_it(self) -> bool:
        """Return whether the engine is better with a drafter."""
        return self.goodput_ratio >= 1


def drafting_gain(
    verdicts: Sequence[FleetVerdict],
    depths: Mapping[str, int],
    cost_model: CostModel,
    *,
    batch_size: int,
    off_tax: float,
    token_ms: float,
    shares: Mapping[str, float] | None = None,
) -> DraftingGain | None:
    """Return the gain of drafting at one load; None where nothing is known of any adapter that has traffic.

    Parameters
    ----------
    depths
        What the policy gives each adapter at this load.
    off_tax
        Share by which a step without drafts is longer in an engine that can draft
        (:func:`lora_spec.gate.pools.off_in_engine_tax`).
    token_ms
        What a token costs that a request of a step verifies.
    shares
        Output tokens by adapter, in any unit; adapters that are not named have none. None: all have the same.
    """
    at_load = {v.name: _lengths(v, depths[v.name], cost_model, batch_size) for v in verdicts}
    traffic = _traffic(list(at_load), shares)
    unknown = tuple(name for name, found in at_load.items() if found is None and traffic[name] > 0)
    known = [v for v in verdicts if at_load[v.name] is not None and traffic[v.name] > 0]
    if not known:
        return None
    max_depth = max(depths[v.name] for v in known)
    steps = TableSteps.of(cost_model, batch_size, max_depth=max_depth, token_ms=token_ms)
    weights = np.array([traffic[v.name] for v in known])
    chosen = np.array([depths[v.name] for v in known])
    lengths = np.ones((len(known), max_depth + 1))
    lengths[np.arange(len(known)), chosen] = [at_load[v.name] for v in known]
    ours = goodputs(chosen, lengths, weights / weights.sum(), steps.taxed(off_tax))
    return DraftingGain(
        batch_size=batch_size,
        goodput_ratio=float(ours * steps.alike_ms[0] / batch_size),
        num_adapters=len(known),
        num_abstained=sum(v.action == "abstain" for v in known),
        unknown_adapters=unknown,
    )


def _lengths(verdict: FleetVerdict, depth: int, cost_model: CostModel, batch_size: int) -> float | None:
    """Return E at a depth, out of the speedup E * T_0 / T_K that the verdict estimates; None if it does not."""
    if depth == 0:
        return 1.0
    load = next((load for load in verdict.by_load if load.batch_size == batch_size), None)
    if load is None or depth not in load.speedups:
        return None
    return load.speedups[depth][0] / cost_model.time_ratio(depth, batch_size).estimate


def _traffic(names: Sequence[str], shares: Mapping[str, float] | None) -> Mapping[str, float]:
    if shares is None:
        return dict.fromkeys(names, 1.0)
    if strangers := sorted(set(shares) - set(names)):
        raise ConfigError(f"traffic of adapter {printable(strangers[0])}: there is no verdict on it; diagnose it first")
    if wrong := [name for name, share in shares.items() if not 0 <= share < float("inf")]:
        raise ConfigError(f"traffic of adapter {printable(wrong[0])} is {shares[wrong[0]]}; give tokens, 0 or more")
    return {name: shares.get(name, 0.0) for name in names}


def read_traffic(path: Path) -> dict[str, float]:
    """Return output tokens by adapter from a JSON file.

    Raises
    ------
    ConfigError
        It cannot be read, or is no such object.
    """
    try:
        data = parse_own(read_regular_file(path, MAX_JSON_BYTES))
    except (OSError, ValueError, StrictJsonError) as err:
        reason = getattr(err, "strerror", None) or err
        raise ConfigError(f"{path}: no readable traffic ({reason}); give a JSON object, tokens by adapter") from err
    return check_type(dict[FleetName, float], data, str(path), error=ConfigError)
