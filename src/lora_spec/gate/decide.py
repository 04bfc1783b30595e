"""The verdict: an acceptance, a cost model and a load in; green, amber, red or abstain out, with reasons."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from lora_spec.cost_model.model import CostModel
from lora_spec.gate.commitment import Commitment
from lora_spec.gate.settings import GateSettings
from lora_spec.gate.weighing import Weighing, weigh
from lora_spec.gate.wording import acceptance_reasons, deeper_reasons, drafter_action, load_summary, main_reason
from lora_spec.records import AcceptanceEstimate, Interval, Mode, Verdict

Reason = tuple[str, str]


def decide(
    estimate: AcceptanceEstimate,
    cost_model: CostModel | None,
    *,
    settings: GateSettings,
    adapter: Mapping[str, Any],
    traffic_share: float | None = None,
    base: AcceptanceEstimate | None = None,
    doubts: Sequence[Reason] = (),
    remarks: Sequence[Reason] = (),
    context: Mapping[str, Any] | None = None,
    predictor_sha256: str | None = None,
    commitment: Commitment | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Verdict:
    """Return the verdict at the headline load; ``speedup_context["by_load"]`` holds that of every load.

    Parameters
    ----------
    estimate
        Measured or predicted; the verdict takes its mode.
    cost_model
        None where nobody measured step times: acceptance alone decides nothing, so the verdict abstains.
    traffic_share
        The adapter's share of requests; None if unknown.
    base
        The unadapted target's acceptance: what an adapted drafter could hope for.
    doubts, remarks
        Reasons from elsewhere, such as the codes of an inspection: a doubt alone makes the verdict abstain.
    context
        What every number holds for: target, drafter, tier.
    commitment
        The certified limit of the doubt of predictions; without one the limits on the intervals decide.

    Raises
    ------
    ConfigError
        A candidate depth that the estimate or the cost model does not know, or an impossible batch size.
    """
    inner_doubts, inner_remarks = acceptance_reasons(estimate)
    all_doubts, all_remarks = [*doubts, *inner_doubts], [*inner_remarks, *remarks]
    common = {
        "adapter": dict(adapter),
        "mode": estimate.mode,
        "predictor_sha256": predictor_sha256,
        "provenance": dict(provenance or {}),
    }
    if cost_model is None:
        length = estimate.acceptance_length(settings.standing_num_speculative_tokens)
        all_doubts.append(_no_cost_model(length, settings))
        return _abstained(common, length=length, speedup=None, context={}, reasons=[*all_doubts, *all_remarks])
    batch_size, load_remarks = _headline_load(cost_model, settings)
    weighed = partial(weigh, estimate, cost_model, settings=settings, commitment=commitment)
    headline = weighed(batch_size=batch_size)
    full_context = _context(
        weighed, cost_model, settings=settings, headline=headline, is_trusted=not all_doubts, context=context or {}
    )
    all_doubts.extend(headline.doubts)
    all_remarks.extend((*load_remarks, *headline.remarks))
    depth = full_context["num_speculative_tokens"]
    length, speedup = headline.lengths[depth], headline.speedups[depth]
    if all_doubts:
        # Why the acceptance is known so badly comes before what follows from that.
        causes = [*doubts, *inner_doubts, *inner_remarks]
        reasons = [*causes, *headline.doubts, *remarks, *load_remarks, *headline.remarks]
        return _abstained(common, length=length, speedup=speedup, context=full_context, reasons=reasons)
    base_weighing = base and weigh(base, cost_model, settings=settings, batch_size=batch_size)
    drafter, drafter_reasons = drafter_action(headline, settings, traffic_share=traffic_share, base=base_weighing)
    reasons = [main_reason(headline, settings), *drafter_reasons, *deeper_reasons(headline, settings), *all_remarks]
    return Verdict(
        **common,
        action=headline.choice.action,
        num_speculative_tokens=headline.choice.num_speculative_tokens,
        drafter=drafter,
        acceptance_length=length,
        speedup=speedup,
        speedup_context=full_context,
        reasons=tuple(reasons),
    )


def abstain(
    *,
    adapter: Mapping[str, Any],
    mode: Mode,
    reasons: Sequence[Reason],
    predictor_sha256: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Verdict:
    """Return the verdict for an adapter of which not even an acceptance can be told."""
    common = {
        "adapter": dict(adapter),
        "mode": mode,
        "predictor_sha256": predictor_sha256,
        "provenance": dict(provenance or {}),
    }
    return _abstained(common, length=None, speedup=None, context={}, reasons=reasons)


def _abstained(
    common: Mapping[str, Any],
    *,
    length: Interval | None,
    speedup: Interval | None,
    context: Mapping[str, Any],
    reasons: Sequence[Reason],
) -> Verdict:
    return Verdict(
        **common,
        action="abstain",
        num_speculative_tokens=None,
        drafter="keep",
        acceptance_length=length,
        speedup=speedup,
        speedup_context=dict(context),
        reasons=tuple(reasons),
    )


def _no_cost_model(length: Interval, settings: GateSettings) -> Reason:
    return (
        "R_NO_COST_MODEL",
        f"acceptance length {length.estimate:.2f} ({length.lower:.2f} to {length.upper:.2f}) at "
        f"K={settings.standing_num_speculative_tokens}, but no step times to weigh it with: give a cost model",
    )


def _headline_load(cost_model: CostModel, settings: GateSettings) -> tuple[float, list[Reason]]:
    if settings.headline_batch_size is not None:
        return settings.headline_batch_size, []
    sizes = sorted(cost_model.batch_sizes)
    chosen = sizes[(len(sizes) - 1) // 2]
    message = (
        f"no load was given: batch size {chosen}, the middle of the measured {', '.join(map(str, sizes))}, is taken"
    )
    return chosen, [("R_LOAD_ASSUMED", message)]


def _context(
    weighed: Callable[..., Weighing],
    cost_model: CostModel,
    *,
    settings: GateSettings,
    headline: Weighing,
    is_trusted: bool,
    context: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the verdict's numbers hold for; they are those of the chosen depth, of the standing one if off."""
    loads = sorted({*(settings.batch_sizes or cost_model.batch_sizes), headline.batch_size})
    weighings = [weighed(batch_size=load) for load in loads]
    return {
        **cost_model.context,
        # What the caller says the verdict is about stands: times do not say whose acceptance they are weighed with.
        **context,
        "num_speculative_tokens": _reported_depth(headline, settings, is_trusted=is_trusted),
        "standing_num_speculative_tokens": settings.standing_num_speculative_tokens,
        "batch_size": headline.batch_size,
        "by_load": [load_summary(weighing, is_trusted=is_trusted) for weighing in weighings],
    }


def _reported_depth(headline: Weighing, settings: GateSettings, *, is_trusted: bool) -> int:
    if is_trusted and not headline.doubts and headline.choice.action == "amber":
        return headline.choice.num_speculative_tokens
    return settings.standing_num_speculative_tokens
