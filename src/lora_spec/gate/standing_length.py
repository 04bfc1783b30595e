"""An adapter's acceptance length at the standing depth, also where its verdict reports that of another depth."""

from lora_spec.cost_model.model import CostModel
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.records import Interval


def standing_length(verdict: FleetVerdict, cost_model: CostModel) -> Interval | None:
    """Return E_K at the standing depth K; None where the verdict does not tell.

    A verdict on another depth still holds the standing one's speedup S = E_K * T_0 / T_K with an interval by bounds, so
    dividing by the bounds of T_0 / T_K gives the bounds of E_K back.
    """
    length, context = verdict.acceptance_length, verdict.context
    standing = context.get("standing_num_speculative_tokens")
    if length is None or standing is None or context["num_speculative_tokens"] == standing:
        return length
    load = next((load for load in verdict.by_load if standing in load.speedups), None)
    if load is None:
        return None
    ratio = cost_model.time_ratio(standing, load.batch_size)
    estimate, lower, upper = load.speedups[standing]
    values = estimate / ratio.estimate, lower / ratio.lower, upper / ratio.upper
    return Interval.around(*values, length.level)
