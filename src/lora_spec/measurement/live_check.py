"""Live counters with LoRA on, against replay and against texts written by merged weights."""

from collections.abc import Sequence
from typing import Any

from lora_spec.errors import MeasurementError
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord


def compare_live(live: AcceptanceRecord, merged: AcceptanceRecord, *, depth: int) -> dict[str, Any]:
    """Return how live counts at one depth agree with replay of the same texts, and how served texts leave merged ones.

    Raises
    ------
    MeasurementError
        The two were measured with other weights of the adapter, or share no prompt.
    """
    if live.adapter_sha256 != merged.adapter_sha256:
        raise MeasurementError(f"adapter {live.adapter!r}: live and merged records are of different weights")
    return {
        "adapter": live.adapter,
        "arms": [_compare_arm(live, merged, arm, depth) for arm in ("base", "adapted")],
    }


def _compare_arm(live: AcceptanceRecord, merged: AcceptanceRecord, arm: str, depth: int) -> dict[str, Any]:
    served = _at(live.chosen("live"), arm, depth)
    replayed = _at(live.chosen("replay"), arm, depth)
    written = _at(merged.chosen("replay"), arm, depth)
    shared = sorted(set(served) & set(written))
    if not shared:
        raise MeasurementError(f"adapter {live.adapter!r}, arm {arm!r}: no prompt was measured both ways")
    prefixes = [_common_prefix(served[p].output_token_ids, written[p].output_token_ids) for p in shared]
    return {
        "arm": arm,
        "num_prompts": len(shared),
        "live": _pooled(served, shared, depth),
        "replay_of_served_text": _pooled(replayed, shared, depth),
        "replay_of_merged_text": _pooled(written, shared, depth),
        "num_prompts_counted_equal": sum(served[p].counts == replayed[p].counts for p in shared),
        "num_equal_texts": sum(served[p].output_token_ids == written[p].output_token_ids for p in shared),
        "num_tokens": sum(len(written[p].output_token_ids) for p in shared),
        "num_tokens_before_divergence": sum(prefixes),
    }


def _at(records: Sequence[PromptRecord], arm: str, depth: int) -> dict[str, PromptRecord]:
    return {
        record.prompt_id: record
        for record in records
        if (record.arm, record.prompt_set, record.counts.num_speculative_tokens) == (arm, "own", depth)
    }


def _pooled(records: dict[str, PromptRecord], prompt_ids: Sequence[str], depth: int) -> dict[str, Any]:
    total = sum((records[p].counts for p in prompt_ids), AcceptanceCounts.zero(depth))
    return {
        "num_drafts": total.num_drafts,
        "num_accepted_tokens_per_pos": list(total.num_accepted_tokens_per_pos),
        "acceptance_length": total.acceptance_length,
    }


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
