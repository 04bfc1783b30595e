"""Acceptance from a live engine: two arms on the same prompts, counts checked against the engine's own counters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lora_spec.engines import AdapterRef, Completion, Engine, GenerationRequest
from lora_spec.errors import MeasurementError
from lora_spec.records import AcceptanceCounts, Arm, PromptRecord

_WARMUP_TOKENS = 4
"""A few steps load an adapter and touch every kernel; longer warm-ups only cost time."""


@dataclass(frozen=True)
class Prompt:
    """A prompt in tokens, so that every arm and engine sees exactly the same."""

    prompt_id: str
    token_ids: tuple[int, ...]


def measure_acceptance(
    engine: Engine,
    prompts_by_set: Mapping[str, Sequence[Prompt]],
    *,
    adapter: AdapterRef,
    num_speculative_tokens: int,
    max_tokens: int,
    min_drafts: int,
    num_warmup_prompts: int = 2,
) -> list[PromptRecord]:
    """Return one record per prompt, arm and prompt set, base arm first, in the order of the prompts.

    Parameters
    ----------
    prompts_by_set
        Prompts under ``"own"`` (the adapter's own traffic) and ``"common"`` (shared by all adapters).
    num_speculative_tokens
        K, the standing depth; the engine is left at its maximum depth.
    max_tokens
        Cap on the output of every prompt, equal in both arms.
    min_drafts
        Verify steps that each arm of each set must reach.

    Raises
    ------
    MeasurementError
        The counters and the requests disagree, a prompt was cut, a request failed, the adapter changed nothing
        although its update is not zero, or an arm has too few drafts.
    """
    records = []
    for prompt_set, prompts in prompts_by_set.items():
        arms: tuple[tuple[Arm, AdapterRef | None], ...] = (("base", None), ("adapted", adapter))
        for arm, served in arms:
            records += measure_arm(
                engine,
                prompts,
                prompt_set=prompt_set,
                arm=arm,
                adapter=served,
                num_speculative_tokens=num_speculative_tokens,
                max_tokens=max_tokens,
                min_drafts=min_drafts,
                num_warmup_prompts=num_warmup_prompts,
            )
    check_adapter_was_served(records, adapter)
    return records


def measure_arm(
    engine: Engine,
    prompts: Sequence[Prompt],
    *,
    prompt_set: str,
    arm: Arm,
    adapter: AdapterRef | None,
    num_speculative_tokens: int,
    max_tokens: int,
    min_drafts: int,
    num_warmup_prompts: int = 2,
) -> list[PromptRecord]:
    """Return one record per prompt of one arm; the same checks as :func:`measure_acceptance` but for the pairing.

    A base arm measured once can serve several adapters.
    """
    if len({prompt.prompt_id for prompt in prompts}) != len(prompts) or not prompts:
        raise MeasurementError(f"prompt set {prompt_set!r} is empty or repeats a prompt id; ids pair the arms")
    requests = [GenerationRequest(p.prompt_id, p.token_ids, max_tokens, adapter) for p in prompts]
    engine.set_depth(num_speculative_tokens)
    try:
        _warm_up(
            engine, [replace(r, max_tokens=min(r.max_tokens, _WARMUP_TOKENS)) for r in requests[:num_warmup_prompts]]
        )
        with engine.counters() as window:
            completions = engine.generate(requests)
    finally:
        engine.set_depth(None)
    where = f"prompt set {prompt_set!r}, arm {arm!r}"
    records = [
        _record(request, completion, prompt_set=prompt_set, arm=arm, num_speculative_tokens=num_speculative_tokens)
        for request, completion in zip(requests, completions, strict=True)
    ]
    assert window.delta is not None
    _reconcile(records, window.delta, where=where)
    check_num_drafts(records, min_drafts, where=where)
    return records


def _warm_up(engine: Engine, requests: Sequence[GenerationRequest]) -> None:
    """Load the adapter and fill caches, outside the window."""
    if requests:
        engine.generate(requests)
    # An idle engine whose counters still move would count the warm-up inside the window.
    if engine.read_counters() != engine.read_counters():
        raise MeasurementError("the counters move while no request runs: wait for the engine to be idle")


def _record(
    request: GenerationRequest, completion: Completion, *, prompt_set: str, arm: Arm, num_speculative_tokens: int
) -> PromptRecord:
    if completion.num_prompt_tokens != len(request.prompt_token_ids):
        raise MeasurementError(
            f"prompt {request.request_id}: {len(request.prompt_token_ids)} tokens sent, {completion.num_prompt_tokens} "
            "processed: the engine cut it; raise max_model_len or shorten the prompt"
        )
    if completion.finish_reason not in ("stop", "length") or not completion.output_token_ids:
        raise MeasurementError(
            f"prompt {request.request_id} ended with {completion.finish_reason!r} after "
            f"{len(completion.output_token_ids)} tokens: the request failed; look at the engine's log and measure again"
        )
    return PromptRecord(
        prompt_id=request.request_id,
        prompt_set=prompt_set,
        arm=arm,
        adapter=request.adapter.name if request.adapter else None,
        counts=completion.counts(num_speculative_tokens),
        num_prompt_tokens=completion.num_prompt_tokens,
        output_token_ids=completion.output_token_ids,
        finish_reason=completion.finish_reason,
        source="live",
        num_steps=len(completion.drafted_per_step),
        e2el_ms=completion.e2el_ms,
    )


def _reconcile(records: Sequence[PromptRecord], delta: AcceptanceCounts, *, where: str) -> None:
    """Hold the sum over prompts against the counters' window, both cut to the depth in force."""
    depth = records[0].counts.num_speculative_tokens
    total = sum((record.counts for record in records), AcceptanceCounts.zero(depth))
    padded = total.num_accepted_tokens_per_pos + (0,) * (delta.num_speculative_tokens - depth)
    summed = AcceptanceCounts(total.num_drafts, total.num_draft_tokens, total.num_accepted_tokens, padded)
    if summed != delta:
        raise MeasurementError(
            f"{where}: the prompts add up to {summed}, the engine's counters to {delta}: other requests (a warm-up, "
            "another client) ran in the window, or counts were lost; measure on an idle engine"
        )


def check_num_drafts(records: Sequence[PromptRecord], min_drafts: int, *, where: str) -> None:
    """Raise MeasurementError where the records hold too few verify steps for a rate worth its interval."""
    num_drafts = sum(record.counts.num_drafts for record in records)
    if num_drafts < min_drafts:
        raise MeasurementError(
            f"{where}: {num_drafts} drafts, {min_drafts} are needed for a rate worth its interval; use more prompts or "
            "a higher max_tokens"
        )


def check_adapter_was_served(records: Sequence[PromptRecord], adapter: AdapterRef) -> None:
    """Raise MeasurementError where the adapted arm repeats the base arm's text on every prompt, update or not.

    Silence is allowed only to an adapter whose update is exactly zero.
    """
    texts: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for record in records:
        texts.setdefault((record.prompt_set, record.prompt_id), set()).add(record.output_token_ids)
    if adapter.has_update and all(len(variants) == 1 for variants in texts.values()):
        raise MeasurementError(
            f"adapter {adapter.name}: its output equals the base model's on all {len(texts)} prompts although its "
            "update is not zero: the engine ignored it; check its target modules and the engine's LoRA support"
        )
