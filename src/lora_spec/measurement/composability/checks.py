"""What a cell's report shows: one function per question, each with a plain answer. Knows no engine.

Texts are compared with reference texts: the same prompt and adapter, float32, greedy, no speculation. A text that
leaves its reference where the reference's two best tokens are within the margin is a tie, not an error: sums taken in
another order decide it.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lora_spec.errors import MeasurementError
from lora_spec.records import AcceptanceCounts

Outcome = Literal["ok", "wrong", "unknown"]
Likeness = Literal["equal", "tie", "different"]


@dataclass(frozen=True)
class Check:
    """One answer: ``detail`` in words, ``numbers`` behind it."""

    name: str
    outcome: Outcome
    detail: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


def compare_with_reference(token_ids: list[int], reference: Mapping[str, Any], margin: float) -> Likeness:
    """Return how a text stands to its reference, which holds ``token_ids`` and ``top_logprobs``."""
    expected = reference["token_ids"]
    length = min(len(token_ids), len(expected))
    at = next((i for i in range(length) if token_ids[i] != expected[i]), length)
    if at == len(token_ids) == len(expected):
        return "equal"
    # One text can only end before the other after the same tokens if it was cut, which equal caps rule out.
    if at == length:
        return "different"
    (best, best_logprob), (second, second_logprob) = reference["top_logprobs"][at]
    is_tie = best_logprob - second_logprob <= margin and {token_ids[at], expected[at]} == {best, second}
    return "tie" if is_tie else "different"


def check_finished(outputs: Mapping[str, Mapping[str, Any]], requested: Iterable[str]) -> Check:
    """Say whether every request came to its own end with at least one token."""
    reasons = {name: outputs.get(name, {}).get("finish_reason") for name in requested}
    bad = [n for n, reason in reasons.items() if reason not in ("stop", "length") or not outputs[n]["token_ids"]]
    ends = Counter(str(reason) for reason in reasons.values())
    detail = f"ended otherwise, or empty: {_some([f'{name} ({reasons[name]})' for name in bad])}"
    return Check("requests_finish", "wrong" if bad else "ok", detail if bad else "all requests ended", dict(ends))


def check_greedy_texts(
    outputs: Mapping[str, Mapping[str, Any]], references: Mapping[str, Mapping[str, Any]], margin: float
) -> Check:
    """Say whether every text is the non-speculative text of its own adapter."""
    found = {name: compare_with_reference(out["token_ids"], references[name], margin) for name, out in outputs.items()}
    counts = {f"num_{word}": sum(value == word for value in found.values()) for word in ("equal", "tie", "different")}
    different = [name for name, value in found.items() if value == "different"]
    by_writer = sorted({name.partition("/")[0] for name in different})
    likes = {name: _looks_like(name, outputs[name]["token_ids"], references) for name in different}
    named = [f"{name} is the text of {like}" for name, like in likes.items() if like]
    detail = "; ".join([f"differ: {_some(different)}", *([_some(named)] if named else [])])
    numbers = {**counts, "different_by": by_writer}
    if not different:
        return Check("texts", "ok", "those without speculation", numbers)
    return Check("texts", "wrong", detail, numbers)


def _looks_like(name: str, token_ids: list[int], references: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the other writer whose reference text of the same prompt this is, if any."""
    _, index, form = name.split("/")
    same_prompt = (other for other in references if other.split("/")[1:] == [index, form] and other != name)
    return next((o.partition("/")[0] for o in same_prompt if references[o]["token_ids"] == token_ids), None)


def check_sampled_texts(scores: Mapping[str, Mapping[str, float]], max_abs_z: float) -> Check:
    """Say whether sampled tokens are as likely under their own adapter as tokens sampled from it would be.

    With p_t the target's distribution at position t, the sum over t of -log p_t(token) - H(p_t) has mean 0 and
    variance sum Var(-log p_t) if each token is drawn from p_t, whatever came before: a z-score judges it.
    """
    z_scores = {
        writer: _z_score([score for name, score in scores.items() if (name.partition("/")[0] == "base") == is_base])
        for writer, is_base in (("base", True), ("adapters", False))
    }
    known = {writer: z for writer, z in z_scores.items() if z is not None}
    off = [writer for writer, z in known.items() if not abs(z) <= max_abs_z]
    detail = f"{' and '.join(off)}: not as likely as samples of the target" if off else "as likely as they should be"
    return Check("texts", "wrong" if off else "ok", detail, {f"z_{writer}": z for writer, z in known.items()})


def _z_score(scores: list[Mapping[str, float]]) -> float | None:
    if not scores:
        return None
    excess = sum(score["surprisal"] - score["entropy"] for score in scores)
    variance = sum(score["variance"] for score in scores)
    # A target that is certain everywhere leaves no variance and must leave no excess.
    return excess / math.sqrt(max(variance, 1e-9))


def check_adapter_applied(
    outputs: Mapping[str, Mapping[str, Any]], references: Mapping[str, Mapping[str, Any]], with_update: Iterable[str]
) -> Check:
    """Say whether no adapter was ignored, where its reference text tells it from the base."""
    ignored, told = [], 0
    for name, out in outputs.items():
        writer, _, rest = name.partition("/")
        base = references.get(f"base/{rest}")
        if writer not in with_update or base is None or base["token_ids"] == references[name]["token_ids"]:
            continue
        told += 1
        if out["token_ids"] == base["token_ids"]:
            ignored.append(name)
    if not told:
        return Check("adapter_applied", "unknown", "no text tells an adapter from the base")
    detail = f"served as the base: {_some(ignored)}" if ignored else "no text is the base's"
    return Check("adapter_applied", "wrong" if ignored else "ok", detail, {"num_told_apart": told})


def check_adapter_likelier(scores: Mapping[str, Mapping[str, float]], with_update: Iterable[str]) -> Check:
    """Say whether sampled texts are likelier under their adapter than under the base, summed per adapter."""
    sums: dict[str, float] = {}
    for name, score in scores.items():
        writer = name.partition("/")[0]
        if writer in with_update:
            sums[writer] = sums.get(writer, 0.0) + score["log_ratio_to_base"]
    if not sums:
        return Check("adapter_applied", "unknown", "no scored text of an adapter")
    ignored = [writer for writer, total in sums.items() if not total > 0]
    detail = f"likelier under the base: {_some(ignored)}" if ignored else "likelier under their adapter"
    return Check("adapter_applied", "wrong" if ignored else "ok", detail, {"log_ratio_to_base": sums})


def check_counters(
    counters: Mapping[str, Any] | None, outputs: Mapping[str, Mapping[str, Any]], *, method: str, max_depth: int
) -> Check:
    """Say whether the speculation counters are there, possible, and agree with the tokens that were delivered.

    The engine counts a step's accepted drafts before it cuts the text at its end, so that up to K per request may be
    accepted and never delivered.
    """
    if method == "none":
        drafted = (counters or {}).get("num_draft_tokens", 0)
        return Check("counters", "wrong" if drafted else "ok", f"{drafted} drafted tokens without speculation")
    if counters is None:
        return Check("counters", "wrong", "no speculation counters")
    try:
        counts = AcceptanceCounts.from_dict({key: counters[key] for key in AcceptanceCounts.__dataclass_fields__})
    except (MeasurementError, KeyError) as error:
        return Check("counters", "wrong", f"impossible: {error}", dict(counters))
    steps = [num for out in outputs.values() for num in out["tokens_per_step"]]
    delivered = sum(steps) - len(steps)
    past_end = counts.num_accepted_tokens - delivered
    numbers = {**counters, "num_accepted_delivered": delivered, "num_request_steps": len(steps)}
    if not 0 <= past_end <= max_depth * len(outputs) or counts.num_drafts > len(steps):
        return Check("counters", "wrong", f"{past_end} accepted tokens are not in the texts", numbers)
    return Check("counters", "ok", "agree with the texts", numbers)


def check_speculated(counters: Mapping[str, Any] | None, *, method: str, min_drafts: int) -> Check:
    """Say whether there was enough speculation for the other checks to mean anything.

    A draft model drafts in every step; a lookup may find nothing to draft.
    """
    num_drafts = (counters or {}).get("num_drafts", 0)
    if num_drafts >= min_drafts:
        return Check("speculated", "ok", f"{num_drafts} draft steps")
    is_silent = not num_drafts and method == "draft_model"
    return Check("speculated", "wrong" if is_silent else "unknown", f"only {num_drafts} draft steps")


def check_grammar(outputs: Mapping[str, Mapping[str, Any]], pattern: str, example: str) -> Check:
    """Say whether every text matches the pattern, or begins a match where the cap cut it."""
    bad = [
        name
        for name, out in outputs.items()
        if not (
            begins_match(out["text"], pattern, example)
            if out["finish_reason"] == "length"
            else re.fullmatch(pattern, out["text"])
        )
    ]
    num_whole = sum(out["finish_reason"] == "stop" for out in outputs.values())
    quoted = [f"{name} wrote {outputs[name]['text']!r}" for name in bad]
    detail = f"outside the grammar: {_some(quoted)}" if bad else "held to the grammar"
    numbers = {"num_whole": num_whole, "num_cut": len(outputs) - num_whole}
    return Check("grammar", "wrong" if bad else "ok", detail, numbers)


def begins_match(text: str, pattern: str, example: str) -> bool:
    """Return whether some end of the example completes the text to a match."""
    return any(re.fullmatch(pattern, text + example[start:]) for start in range(len(example) + 1))


def _some(items: list[str], limit: int = 3) -> str:
    return ", ".join(items[:limit]) + (f" and {len(items) - limit} more" if len(items) > limit else "")
