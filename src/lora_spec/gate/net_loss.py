"""The question behind AUROC: is the standing depth a net loss for this adapter, at a load fixed before any was seen.

K is the standing depth. The load is the largest batch of the decision map at which the *base* still gains by it, beyond
the dead band: as crowded as the fleet could be run before adapters came. Both follow from step times and the base's
acceptance alone. An adapter is then a net loss where goodput with speculation falls below goodput without:

    E_K / T_K(B) < 1 / T_0(B)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lora_spec.cost_model import CostModel
from lora_spec.errors import ResultError
from lora_spec.evaluation import prevalence
from lora_spec.gate.settings import GateSettings
from lora_spec.records import AcceptanceCounts, AcceptanceRecord


@dataclass(frozen=True)
class FixedLoad:
    """The load that the question is about.

    Parameters
    ----------
    base_acceptance_length
        E_K of the base, tokens per draft step.
    base_speedup
        Its goodput with speculation over that without, at this load.
    break_even_acceptance_length
        T_K(B) / T_0(B): an adapter below it is a net loss.
    """

    num_speculative_tokens: int
    batch_size: int
    base_acceptance_length: float
    base_speedup: float
    break_even_acceptance_length: float

    def is_net_loss(self, acceptance_length: float) -> bool:
        """Return whether an adapter with this E_K makes more tokens a second without speculation."""
        return acceptance_length < self.break_even_acceptance_length


def base_counts(records: Sequence[AcceptanceRecord], *, prompt_set: str, depth: int) -> AcceptanceCounts:
    """Return the counts of the unadapted target on a prompt set at a depth, pooled over all records of it.

    Raises
    ------
    ResultError
        No record holds such counts.
    """
    counts = [
        prompt.counts
        for record in records
        for prompt in record.chosen("replay")
        if (prompt.arm, prompt.prompt_set, prompt.counts.num_speculative_tokens) == ("base", prompt_set, depth)
    ]
    total = sum(counts, AcceptanceCounts.zero(depth))
    if not total.num_drafts:
        raise ResultError(
            f"no drafts of the base on {prompt_set!r} prompts at K={depth} in {len(records)} records; measure them, or "
            "name another base_prompt_set in gate.yaml"
        )
    return total


def fix_load(base_acceptance_length: float, cost_model: CostModel, settings: GateSettings) -> FixedLoad | None:
    """Return the load of the question, None where the base gains by the standing depth at no load that was timed."""
    depth = settings.standing_num_speculative_tokens
    timed = [int(size) for size in settings.batch_sizes if not cost_model.load_reasons(size)]
    for batch_size in sorted(timed, reverse=True):
        ratio = cost_model.time_ratio(depth, batch_size).estimate
        if base_acceptance_length * ratio > 1 + settings.dead_band:
            speedup = base_acceptance_length * ratio
            return FixedLoad(depth, batch_size, base_acceptance_length, speedup, 1 / ratio)
    return None


@dataclass(frozen=True)
class Question:
    """What AUROC is about, the share of adapters for which it is so, and the reason where no AUROC may be given."""

    load: FixedLoad | None
    prevalence: float | None
    reason: str | None

    @property
    def is_scored(self) -> bool:
        """Return whether an AUROC may be given."""
        return self.reason is None

    def answers(self, acceptance_lengths: Sequence[float]) -> list[bool] | None:
        """Return for each E_K whether it is a net loss, None where there is no load to ask about."""
        return None if self.load is None else [self.load.is_net_loss(length) for length in acceptance_lengths]


def ask(
    load: FixedLoad | None, acceptance_lengths: Sequence[float], *, min_prevalence: float, max_prevalence: float
) -> Question:
    """Return the question put to measured E_K; it is scored only where both answers are common enough."""
    if load is None:
        return Question(None, None, "the base gains by the standing depth at no load that was timed")
    share = prevalence([load.is_net_loss(length) for length in acceptance_lengths])
    if share is not None and min_prevalence <= share <= max_prevalence:
        return Question(load, share, None)
    found = "no adapter was measured" if share is None else f"{share:.0%} of the adapters are net losses"
    rule = f"an AUROC is given from {min_prevalence:.0%} to {max_prevalence:.0%}"
    return Question(load, share, f"{found} at batch {load.batch_size}; {rule}")
