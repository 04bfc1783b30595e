"""From one adapter's acceptance record to its estimates and paired effects, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lora_spec.errors import ConfigError, MeasurementError
from lora_spec.measurement.effect import (
    estimate_acceptance,
    estimate_acceptance_length_difference,
    estimate_mismatch,
)
from lora_spec.measurement.record_checks import check_record
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, Interval, PromptRecord


@dataclass(frozen=True)
class SummarySettings:
    """How counts become estimates: the standing depth, the interval's level, draws and seed, the fewest drafts."""

    num_speculative_tokens: int
    min_drafts: int
    level: float
    num_bootstrap_draws: int
    seed: int

    def __post_init__(self) -> None:
        counts = (self.num_speculative_tokens, self.min_drafts, self.num_bootstrap_draws)
        if min(counts) < 1 or self.seed < 0 or not 0 < self.level < 1:
            raise ConfigError(
                f"{self}: depth, fewest drafts and draws must be 1 or more, the seed 0 or more, the level inside 0 to 1"
            )


def summarise_record(measured: AcceptanceRecord, settings: SummarySettings) -> dict[str, Any]:
    """Return an adapter's measured acceptance, its base's on the same prompts, and the paired effects.

    Estimates rest on replayed counts, which exist at every depth; the live counts stand beside them.

    Raises
    ------
    ResultError
        The record's rows are not all of its adapter, or its arms and depths do not match.
    """
    check_record(measured)
    replay, live = measured.chosen("replay"), measured.chosen("live")
    how = {"level": settings.level, "num_bootstrap": settings.num_bootstrap_draws, "seed": settings.seed}
    prompt_sets = dict.fromkeys(record.prompt_set for record in replay)
    return {
        "adapter": measured.adapter,
        "adapter_sha256": measured.adapter_sha256,
        "estimate": estimate_acceptance(replay, arm="adapted", min_drafts=settings.min_drafts, **how).to_dict(),
        "base_estimate": estimate_acceptance(replay, arm="base", min_drafts=settings.min_drafts, **how).to_dict(),
        "effects": [_effect(replay, prompt_set, settings) for prompt_set in prompt_sets],
        "live": [_live_beside_replay(live, replay, settings.num_speculative_tokens, key) for key in _cells(live)],
    }


def _cells(records: Sequence[PromptRecord]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((record.prompt_set, record.arm) for record in records))


def _effect(replay: Sequence[PromptRecord], prompt_set: str, settings: SummarySettings) -> dict[str, Any]:
    how = {
        "prompt_set": prompt_set,
        "num_speculative_tokens": settings.num_speculative_tokens,
        "min_drafts": settings.min_drafts,
        "level": settings.level,
        "num_bootstrap": settings.num_bootstrap_draws,
        "seed": settings.seed,
    }
    pooled = {arm: _pooled(replay, prompt_set, arm, settings.num_speculative_tokens) for arm in ("base", "adapted")}
    return {
        "prompt_set": prompt_set,
        "acceptance_length_difference": asdict(estimate_acceptance_length_difference(replay, **how)),
        "mismatch": _mismatch_or_none(replay, how),
        "num_prompts": len({record.prompt_id for record in replay if record.prompt_set == prompt_set}),
        "counts": {arm: asdict(counts) for arm, counts in pooled.items()},
    }


def _mismatch_or_none(replay: Sequence[PromptRecord], how: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the mismatch, or None where the base itself accepts too little for a ratio."""
    try:
        interval: Interval = estimate_mismatch(replay, **how)
    except MeasurementError:
        return None
    return asdict(interval)


def _pooled(records: Sequence[PromptRecord], prompt_set: str, arm: str, depth: int) -> AcceptanceCounts:
    chosen = [
        record.counts
        for record in records
        if (record.prompt_set, record.arm, record.counts.num_speculative_tokens) == (prompt_set, arm, depth)
    ]
    return sum(chosen, AcceptanceCounts.zero(depth))


def _live_beside_replay(
    live: Sequence[PromptRecord], replay: Sequence[PromptRecord], depth: int, key: tuple[str, str]
) -> dict[str, Any]:
    prompt_set, arm = key
    return {
        "prompt_set": prompt_set,
        "arm": arm,
        "live": asdict(_pooled(live, prompt_set, arm, depth)),
        "replay": asdict(_pooled(replay, prompt_set, arm, depth)),
    }
