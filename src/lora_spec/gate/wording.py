"""Reasons in plain words, each with its numbers and where they hold."""

from lora_spec.gate.actions import is_harmful
from lora_spec.gate.settings import GateSettings
from lora_spec.gate.weighing import Weighing
from lora_spec.records import AcceptanceEstimate, DrafterAction, Interval

Reason = tuple[str, str]


def _ratio(interval: Interval) -> str:
    return f"{interval.estimate:.2f} times ({interval.lower:.2f} to {interval.upper:.2f}, level {interval.level:.2f})"


def main_reason(weighing: Weighing, settings: GateSettings) -> Reason:
    """Return why the action is green, amber or red."""
    standing, depth = settings.standing_num_speculative_tokens, weighing.choice.num_speculative_tokens
    gain, length = weighing.speedups[standing], weighing.lengths[standing]
    where = f"at batch size {weighing.batch_size:g}"
    standing_words = (
        f"the standing K={standing} gives {_ratio(gain)} the goodput of speculation off {where} at acceptance length "
        f"{length.estimate:.2f}"
    )
    if weighing.choice.action == "green":
        return (
            "R_STANDING_STAYS",
            f"{standing_words}; no shorter depth is better by more than {settings.max_green_loss:.0%}",
        )
    if weighing.choice.action == "amber":
        return ("R_SHORTER_PAYS", f"K={depth} gives {_ratio(weighing.speedups[depth])} {where}; {standing_words}")
    return ("R_SPECULATION_LOSES", f"no depth up to the standing one beats speculation off {where}; {standing_words}")


def deeper_reasons(weighing: Weighing, settings: GateSettings) -> list[Reason]:
    """Return a reason if a depth beyond the standing one would pay: the colour does not change, the fleet might."""
    gain = weighing.estimates
    chosen = gain[weighing.choice.num_speculative_tokens]
    deeper = max(settings.deeper_depths, key=gain.__getitem__, default=None)
    if deeper is None or gain[deeper] * (1 - settings.max_green_loss) <= chosen:
        return []
    return [
        (
            "R_DEEPER_PAYS",
            f"K={deeper} would give {_ratio(weighing.speedups[deeper])} at batch size {weighing.batch_size:g}, more "
            f"than K={weighing.choice.num_speculative_tokens}",
        )
    ]


def drafter_action(
    weighing: Weighing,
    settings: GateSettings,
    *,
    traffic_share: float | None,
    base: Weighing | None,
) -> tuple[DrafterAction, list[Reason]]:
    """Return what happens to the drafter, and why where it is not simply kept.

    Adapting it is for an adapter that is harmful and hot, and only where the acceptance of the unadapted target,
    which is what an adapted drafter can hope for, would itself pay at this load.
    """
    if weighing.choice.action != "red":
        return "keep", []
    share = settings.default_traffic_share if traffic_share is None else traffic_share
    origin = "not given, assumed" if traffic_share is None else "given"
    is_hot = share >= settings.hot_traffic_share
    words = f"traffic share {share:.0%} ({origin}); hot is from {settings.hot_traffic_share:.0%} on"
    if not (is_hot and is_harmful(weighing.estimates, settings)):
        return "disable", [("R_TRAFFIC_COLD" if not is_hot else "R_NOT_HARMFUL", words)]
    if base is not None and max(base.estimates.values()) <= 1 + settings.dead_band:
        message = (
            f"{words}; even with the unadapted target's acceptance no depth gains more than {settings.dead_band:.0%} "
            f"at batch size {weighing.batch_size:g}, so another drafter would not help"
        )
        return "disable", [("R_ADAPTING_CANNOT_PAY", message)]
    return "adapt", [("R_TRAFFIC_HOT", f"{words}: a drafter of its own may pay")]


def load_summary(weighing: Weighing, *, is_trusted: bool) -> dict[str, object]:
    """Return one load's verdict as plain data; untrusted acceptance abstains at every load."""
    abstains = bool(weighing.doubts) or not is_trusted
    return {
        "batch_size": weighing.batch_size,
        "action": "abstain" if abstains else weighing.choice.action,
        "num_speculative_tokens": None if abstains else weighing.choice.num_speculative_tokens,
        "reason_codes": sorted({code for code, _ in (*weighing.doubts, *weighing.remarks)}),
        "speedup_by_depth": {
            str(depth): {"estimate": i.estimate, "lower": i.lower, "upper": i.upper}
            for depth, i in weighing.speedups.items()
        },
    }


def acceptance_reasons(estimate: AcceptanceEstimate) -> tuple[list[Reason], list[Reason]]:
    """Return (doubts, remarks) that came with the acceptance."""
    reasons = list(estimate.reasons)
    return (reasons, []) if estimate.is_out_of_distribution else ([], reasons)
