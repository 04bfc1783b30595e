"""Everything that phase 1 reports beside its answer: variances, order under other drafters, live confirmation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lora_spec.cost_model import CostModel
from lora_spec.errors import ResultError
from lora_spec.gate.effect_gate import EffectRule, judge_effect
from lora_spec.joins import by_adapter, check_same_weights
from lora_spec.measurement.live_check import compare_live
from lora_spec.measurement.record_checks import check_alike
from lora_spec.measurement.robustness import order_stability
from lora_spec.measurement.variance import prompt_table, variance_components
from lora_spec.records import AcceptanceRecord


@dataclass(frozen=True)
class EffectSettings:
    """The rule, the stratum of each adapter, and the depth of the live confirmation."""

    rule: EffectRule
    strata: Mapping[str, str]
    live_depth: int

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "EffectSettings":
        """Rebuild from a script's JSON flag."""
        rule = {**data["rule"], "candidate_depths": tuple(data["rule"]["candidate_depths"])}
        return cls(EffectRule(**rule), data["strata"], data["live_depth"])


def effect_report(
    records: Sequence[AcceptanceRecord],
    cost_model: CostModel,
    settings: EffectSettings,
    *,
    live: Sequence[AcceptanceRecord] = (),
) -> dict[str, Any]:
    """Return the answer with its numbers, and what tells how far to trust them.

    Raises
    ------
    ResultError
        An adapter stands twice, has no stratum, or was confirmed live with other weights than were counted; or the
        records were not counted in the same way.
    """
    depth = settings.rule.num_speculative_tokens
    by_name = by_adapter(records, _adapter_of, what="acceptance records")
    _check_joined(by_name, settings.strata, by_adapter(live, _adapter_of, what="live records"))
    check_alike(records)
    judged = judge_effect(records, settings.strata, cost_model, settings.rule)
    return {
        **judged,
        "sentence": sentence_of(judged),
        "variance": variance_components(prompt_table(records, depth=depth)),
        "order": [order_stability(records, depth=depth, prompt_set=name) for name in ("own", "common")],
        "live": [compare_live(record, by_name[record.adapter], depth=settings.live_depth) for record in live],
    }


def _adapter_of(record: AcceptanceRecord) -> str:
    return record.adapter


def _check_joined(
    counted: Mapping[str, AcceptanceRecord], strata: Mapping[str, str], live: Mapping[str, AcceptanceRecord]
) -> None:
    for name in counted:
        if name not in strata:
            raise ResultError(f"adapter {name!r} has a record but no stratum; add its row to adapter_pool.yaml")
    for name, record in live.items():
        if name not in counted:
            raise ResultError(f"adapter {name!r} was confirmed live but has no acceptance record; pass that too")
        check_same_weights(name, {"counts": counted[name].adapter_sha256, "live counts": record.adapter_sha256})


def sentence_of(judged: Mapping[str, Any]) -> str:
    """Return the answer's numbers in one line."""
    rule, accepted, goodput = judged["rule"], judged["accepted_loss"], judged["goodput_loss"]
    accepted_text, goodput_text = (_percent(part) for part in (accepted, goodput))
    return (
        f"{rule['stratum']} adapters lose {accepted_text} of accepted drafts at K={rule['num_speculative_tokens']}; "
        f"ignoring it costs {goodput_text} of goodput at batch {rule['batch_size']} (level {rule['level']:g})"
    )


def _percent(interval: Mapping[str, float]) -> str:
    return f"{interval['estimate']:.0%} [{interval['lower']:.0%}, {interval['upper']:.0%}]"
