"""GO, INVESTIGATE or STOP: is there an effect of adapters on acceptance that is worth acting on.

The rule is fixed in ``phase1_measurement.yaml`` before anything is measured, and is about one stratum. Shares over all
strata only describe the pool, since its strata were chosen.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from lora_spec.cost_model import CostModel
from lora_spec.errors import ConfigError, MeasurementError
from lora_spec.measurement.pooled_effect import (
    Array,
    Effect,
    PairedCounts,
    PromptDraws,
    holm,
    length_difference,
    paired_counts_of,
    pooled_loss,
)
from lora_spec.percentiles import percentile_interval
from lora_spec.records import AcceptanceRecord, Interval

Answer = Literal["GO", "INVESTIGATE", "STOP"]


@dataclass(frozen=True)
class EffectRule:
    """The pre-registered rule, and how it is computed.

    ``num_speculative_tokens`` is the standing depth that goodput is judged at; ``batch_size`` the load cell.
    """

    stratum: str
    min_accepted_loss: float
    min_goodput_loss: float
    batch_size: int
    num_speculative_tokens: int
    candidate_depths: tuple[int, ...]
    min_drafts: int
    level: float
    num_bootstrap_draws: int
    seed: int

    def __post_init__(self) -> None:
        depths, standing = self.candidate_depths, self.num_speculative_tokens
        if standing < 1 or standing not in depths or min(depths) < 0:
            raise ConfigError(
                f"effect gate: candidate_depths {list(depths)} must hold the standing depth {standing} >= 1"
            )
        for name in ("min_accepted_loss", "min_goodput_loss"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"effect gate: {name} is {getattr(self, name)!r}; it is a fraction from 0 to 1")
        if self.batch_size < 1 or self.min_drafts < 1 or self.seed < 0:
            raise ConfigError("effect gate: batch_size and min_drafts are at least 1, seed at least 0")
        # No p-value lies below 2 / (draws + 1): with fewer draws than this the answer could never be GO.
        if not 0 < self.level < 1 or 2 / (self.num_bootstrap_draws + 1) > round(1 - self.level, 9):
            raise ConfigError(
                f"effect gate: {self.num_bootstrap_draws} draws can show nothing at level {self.level}, which "
                "lies between 0 and 1 and needs at least 2 / (1 - level) draws"
            )


def answer_of(accepted_loss: Interval, goodput_loss: Interval, *, p_holm: float, rule: EffectRule) -> Answer:
    """Return the rule's answer.

    GO: the loss of accepted drafts reaches its bar, is significant after Holm's correction, and ignoring it costs more
    goodput than its bar. STOP: the upper ends of both lie below their bars. INVESTIGATE: anything else.
    """
    is_significant = accepted_loss.lower > 0 and p_holm <= round(1 - rule.level, 9)
    has_loss = accepted_loss.estimate >= rule.min_accepted_loss and is_significant
    if has_loss and goodput_loss.estimate > rule.min_goodput_loss:
        return "GO"
    if accepted_loss.upper < rule.min_accepted_loss and goodput_loss.upper < rule.min_goodput_loss:
        return "STOP"
    return "INVESTIGATE"


def judge_effect(
    records: Sequence[AcceptanceRecord], strata: Mapping[str, str], cost_model: CostModel, rule: EffectRule
) -> dict[str, Any]:
    """Return the answer with every number behind it, as plain data.

    Parameters
    ----------
    strata
        Stratum of each adapter by name.

    Raises
    ------
    MeasurementError
        The rule's stratum has no adapters, one of them has no record, or an adapter has too few drafts.
    """
    _check_stratum({record.adapter for record in records}, strata, rule.stratum)
    draws = PromptDraws(rule.num_bootstrap_draws, rule.seed)
    counts = {
        record.adapter: paired_counts_of(
            record, prompt_set="own", depth=rule.num_speculative_tokens, min_drafts=rule.min_drafts
        )
        for record in records
    }
    by_stratum = {name: [counts[a] for a in counts if strata[a] == name] for name in dict.fromkeys(strata.values())}
    groups = _groups({name: group for name, group in by_stratum.items() if group}, draws, rule)
    members = [record for record in records if strata[record.adapter] == rule.stratum]
    goodput_loss = goodput_loss_of(members, cost_model, draws, rule)
    judged = next(group for group in groups if group["stratum"] == rule.stratum)
    accepted_loss = Interval(**judged["accepted_loss"])
    return {
        "answer": answer_of(accepted_loss, goodput_loss, p_holm=judged["p_holm"], rule=rule),
        "rule": asdict(rule),
        "accepted_loss": asdict(accepted_loss),
        "goodput_loss": asdict(goodput_loss),
        "cost_context": dict(cost_model.context),
        "strata": groups,
        "adapters": _adapters(list(counts.values()), strata, draws, rule),
    }


def _check_stratum(measured: Collection[str], strata: Mapping[str, str], stratum: str) -> None:
    """Refuse to judge a stratum by a part of it: which adapters are missing may be no accident."""
    members = [name for name, found in strata.items() if found == stratum]
    if not members:
        raise MeasurementError(f"no adapter of stratum {stratum!r}, which the effect rule is about; add some")
    if missing := sorted(set(members) - set(measured)):
        raise MeasurementError(
            f"adapter {missing[0]!r} of stratum {stratum!r}, which the effect rule is about, has no record "
            f"({len(missing)} of {len(members)} have none); measure them too, or name the strata of what was measured"
        )


def _groups(by_stratum: Mapping[str, list[PairedCounts]], draws: PromptDraws, rule: EffectRule) -> list[dict[str, Any]]:
    effects = {name: pooled_loss(group, draws, rule.level) for name, group in by_stratum.items()}
    adjusted = holm([effect.p_value for effect in effects.values()])
    return [
        {
            "stratum": name,
            "num_adapters": len(by_stratum[name]),
            "accepted_loss": asdict(effect.interval),
            **_test(effect, p_holm),
        }
        for (name, effect), p_holm in zip(effects.items(), adjusted, strict=True)
    ]


def _adapters(
    counts: Sequence[PairedCounts], strata: Mapping[str, str], draws: PromptDraws, rule: EffectRule
) -> list[dict[str, Any]]:
    effects = [length_difference(item, draws, rule.level) for item in counts]
    adjusted = holm([effect.p_value for effect in effects])
    return [
        {
            "adapter": item.adapter,
            "stratum": strata[item.adapter],
            "num_prompts": len(item.prompt_ids),
            "acceptance_length_difference": asdict(effect.interval),
            **_test(effect, p_holm),
        }
        for item, effect, p_holm in zip(counts, effects, adjusted, strict=True)
    ]


def _test(effect: Effect, p_holm: float) -> dict[str, float]:
    return {"p_value": effect.p_value, "p_holm": p_holm, "min_detectable": effect.min_detectable}


def goodput_loss_of(
    records: Sequence[AcceptanceRecord], cost_model: CostModel, draws: PromptDraws, rule: EffectRule
) -> Interval:
    """Return the share of goodput lost by keeping the standing depth for every adapter of a mix of equal shares.

    Each adapter is compared with the depth that is best for it at the estimates, which is then held fixed: choosing it
    anew in every resample would count noise as a loss.
    """
    standing = rule.num_speculative_tokens
    kept, best = [], []
    for record in records:
        rates = {depth: _goodput(record, depth, cost_model, draws, rule) for depth in rule.candidate_depths}
        best_depth = max(rates, key=lambda depth: rates[depth][0])
        kept.append(rates[standing])
        best.append(rates[best_depth])
    (kept_estimate, kept_draws), (best_estimate, best_draws) = (_total(part) for part in (kept, best))
    estimate, values = 1 - kept_estimate / best_estimate, 1 - kept_draws / best_draws
    return percentile_interval(estimate, values, rule.level)


def _total(parts: Sequence[tuple[float, Array]]) -> tuple[float, Array]:
    return sum(estimate for estimate, _ in parts), np.sum([values for _, values in parts], axis=0)


def _goodput(
    record: AcceptanceRecord, depth: int, cost_model: CostModel, draws: PromptDraws, rule: EffectRule
) -> tuple[float, Array]:
    """Return tokens per ms and request at one depth, and its draws: prompts and step times are drawn apart."""
    estimate_ms, draws_ms = cost_model.step_time_draws(depth, rule.batch_size, num_draws=rule.num_bootstrap_draws)
    if depth == 0:
        return 1 / estimate_ms, 1 / draws_ms
    counts = paired_counts_of(record, prompt_set="own", depth=depth, min_drafts=rule.min_drafts)
    length = 1 + counts.table[:, 3].sum() / counts.table[:, 2].sum()
    sums = draws.sums(counts)
    return float(length / estimate_ms), (1 + sums[:, 3] / sums[:, 2]) / draws_ms
