"""A fleet as a mix in one engine, by the estimates of its verdicts: what each adapter accepts, and its traffic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lora_spec.cost_model.model import CostModel
from lora_spec.errors import ConfigError
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.printing import printable
from lora_spec.regular_file import read_regular_file
from lora_spec.results import MAX_JSON_BYTES
from lora_spec.strict_json import StrictJsonError, parse_own
from lora_spec.typed import FleetName, check_type

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FleetMix:
    """Adapters with traffic whose acceptance is estimated as deep as the policy lets them draft.

    Parameters
    ----------
    depths
        What the policy gives each at this load, shape ``(n,)``.
    lengths
        E_0 to E_K, shape ``(n, K + 1)``; 1 beyond what is estimated, which is never below ``depths``.
    shares
        Of the output tokens; add up to 1.
    is_abstained
        Whose verdict abstains, as a whole and at this load: they count by estimates that the gate did not trust.
    unknown
        Adapters with traffic that no such estimate is known of; they are not in the mix.
    """

    names: tuple[str, ...]
    depths: NDArray[np.int64]
    lengths: Array
    shares: Array
    is_abstained: NDArray[np.bool_]
    unknown: tuple[str, ...]


def fleet_mix(
    verdicts: Sequence[FleetVerdict],
    depths: Mapping[str, int],
    cost_model: CostModel,
    *,
    batch_size: int,
    shares: Mapping[str, float] | None = None,
) -> FleetMix | None:
    """Return the mix at one load; None where nothing is known of any adapter that has traffic.

    Parameters
    ----------
    depths
        What the policy gives each adapter at this load.
    shares
        Output tokens by adapter, in any unit; adapters that are not named have none. None: all have the same.

    Raises
    ------
    ConfigError
        Traffic of an adapter without a verdict, or of no size.
    """
    traffic = _traffic([v.name for v in verdicts], shares)
    served = [v for v in verdicts if traffic[v.name] > 0]
    max_depth = max((depths[v.name] for v in served), default=0)
    rows = {v.name: _lengths(v, max_depth, cost_model, batch_size) for v in served}
    known = [v for v in served if len(rows[v.name]) > depths[v.name]]
    if not known:
        return None
    lengths = np.ones((len(known), max_depth + 1))
    for place, verdict in enumerate(known):
        lengths[place, : len(rows[verdict.name])] = rows[verdict.name]
    weights = np.array([traffic[v.name] for v in known])
    weights /= weights.max()  # the sum of any numbers is then a number
    return FleetMix(
        names=tuple(v.name for v in known),
        depths=np.array([depths[v.name] for v in known]),
        lengths=lengths,
        shares=weights / weights.sum(),
        is_abstained=np.array([_is_abstained(v, batch_size) for v in known]),
        unknown=tuple(v.name for v in served if len(rows[v.name]) <= depths[v.name]),
    )


def _is_abstained(verdict: FleetVerdict, batch_size: int) -> bool:
    load = verdict.at_load(batch_size)
    return verdict.action == "abstain" and (load is None or load.action == "abstain")


def _lengths(verdict: FleetVerdict, max_depth: int, cost_model: CostModel, batch_size: int) -> list[float]:
    """Return E_0 on, out of the speedups E * T_0 / T_K that the verdict estimates, as deep as it does without a gap."""
    load, lengths = verdict.at_load(batch_size), [1.0]
    told = {} if load is None else load.speedups
    while (depth := len(lengths)) <= max_depth and depth in told:
        lengths.append(told[depth][0] / cost_model.time_ratio(depth, batch_size).estimate)
    return lengths


def _traffic(names: Sequence[str], shares: Mapping[str, float] | None) -> Mapping[str, float]:
    if shares is None:
        return dict.fromkeys(names, 1.0)
    if strangers := sorted(set(shares) - set(names)):
        raise ConfigError(f"traffic of adapter {printable(strangers[0])}: there is no verdict on it; diagnose it first")
    if wrong := [name for name, share in shares.items() if not 0 <= share < float("inf")]:
        raise ConfigError(f"traffic of adapter {printable(wrong[0])} is {shares[wrong[0]]}; give tokens, 0 or more")
    return {name: shares.get(name, 0.0) for name in names}


def read_traffic(path: Path, names: Sequence[str]) -> dict[str, float]:
    """Return output tokens by adapter from a JSON file.

    Parameters
    ----------
    names
        The adapters that verdicts were given on.

    Raises
    ------
    ConfigError
        It cannot be read, is no such object, names an adapter without a verdict, or leaves no adapter any traffic.
    """
    try:
        data = parse_own(read_regular_file(path, MAX_JSON_BYTES))
    except (OSError, ValueError, StrictJsonError) as err:
        reason = getattr(err, "strerror", None) or err
        raise ConfigError(f"{path}: no readable traffic ({reason}); give a JSON object, tokens by adapter") from err
    shares = check_type(dict[FleetName, float], data, str(path), error=ConfigError)
    try:
        traffic = _traffic(names, shares)
    except ConfigError as err:
        raise ConfigError(f"{path}: {err}") from err
    if not any(traffic.values()):
        raise ConfigError(f"{path}: no adapter has any traffic; give the tokens of one at least, or leave it out")
    return shares
