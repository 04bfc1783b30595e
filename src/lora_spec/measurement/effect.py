"""Effects from paired records: ratios of sums, with intervals from resampling whole prompts. Knows no engine."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from lora_spec.errors import MeasurementError
from lora_spec.percentiles import percentile_interval
from lora_spec.records import AcceptanceEstimate, Arm, Interval, PromptRecord


def estimate_mismatch(
    records: Sequence[PromptRecord],
    *,
    prompt_set: str,
    num_speculative_tokens: int,
    min_drafts: int,
    level: float,
    num_bootstrap: int,
    seed: int,
) -> Interval:
    """Return mismatch = 1 - (accepted drafts per step, adapted) / (same, base) with its interval.

    Both rates are ratios of sums over the same prompts; the bootstrap draws prompts, and with them both arms.

    Raises
    ------
    MeasurementError
        The arms hold different prompts, an arm has too few drafts, or the base arm accepts nothing.
    """

    def mismatch(sums: np.ndarray) -> np.ndarray:
        base_drafts, base_accepted, drafts, accepted = sums.T
        if not base_accepted.all() or not base_drafts.all() or not drafts.all():
            raise MeasurementError(
                f"prompt set {prompt_set!r} at K={num_speculative_tokens}: the base arm accepts (or an arm drafts) "
                "nothing in some resamples, so no ratio exists; measure more prompts"
            )
        return 1 - (accepted / drafts) / (base_accepted / base_drafts)

    table = paired_counts(records, prompt_set, num_speculative_tokens, min_drafts)
    return _bootstrap(table, mismatch, level=level, num_bootstrap=num_bootstrap, seed=seed)


def estimate_acceptance_length_difference(
    records: Sequence[PromptRecord],
    *,
    prompt_set: str,
    num_speculative_tokens: int,
    min_drafts: int,
    level: float,
    num_bootstrap: int,
    seed: int,
) -> Interval:
    """Return E_K of the adapted arm minus E_K of the base arm, in tokens per step, with its interval."""

    def difference(sums: np.ndarray) -> np.ndarray:
        base_drafts, base_accepted, drafts, accepted = sums.T
        return accepted / _positive(drafts) - base_accepted / _positive(base_drafts)

    table = paired_counts(records, prompt_set, num_speculative_tokens, min_drafts)
    return _bootstrap(table, difference, level=level, num_bootstrap=num_bootstrap, seed=seed)


def estimate_acceptance(
    records: Sequence[PromptRecord],
    *,
    level: float,
    num_bootstrap: int,
    seed: int,
    prompt_set: str = "own",
    arm: Arm = "adapted",
    min_drafts: int = 1,
) -> AcceptanceEstimate:
    """Return the measured acceptance of one arm at every depth that was counted, mode ``measured``.

    a_1..a_K are those of the deepest drafts; E_k of each depth comes from that depth's own counts, since the steps of
    another depth start elsewhere.

    Parameters
    ----------
    records
        Replayed counts at every depth 1..K (other arms and sets may be among them).
    """
    chosen = [record for record in records if record.arm == arm and record.prompt_set == prompt_set]
    max_depth = max((record.counts.num_speculative_tokens for record in chosen), default=0)
    if not max_depth:
        raise MeasurementError(f"no counts for arm {arm!r} on prompt set {prompt_set!r}; replay its trajectories first")
    tables = {depth: _counts_table(chosen, depth, min_drafts) for depth in range(1, max_depth + 1)}
    options = {"level": level, "num_bootstrap": num_bootstrap, "seed": seed}
    rates = [_bootstrap(tables[max_depth], _rate_at(k), **options) for k in range(1, max_depth + 1)]
    lengths = [_bootstrap(table, _acceptance_length, **options) for table in tables.values()]
    return AcceptanceEstimate(
        mode="measured",
        acceptance_rate_per_pos=tuple(rate.estimate for rate in rates),
        lower=tuple(rate.lower for rate in rates),
        upper=tuple(rate.upper for rate in rates),
        level=level,
        acceptance_length_by_depth=tuple(lengths),
    )


def _rate_at(position: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda sums: sums[:, position] / _positive(sums[:, 0])


def _acceptance_length(sums: np.ndarray) -> np.ndarray:
    return 1 + sums[:, 1:].sum(axis=1) / _positive(sums[:, 0])


def _positive(num_drafts: np.ndarray) -> np.ndarray:
    if not num_drafts.all():
        raise MeasurementError("some resamples hold no draft at all: measure more prompts or longer outputs")
    return num_drafts


def _at_depth(records: Sequence[PromptRecord], depth: int) -> dict[str, PromptRecord]:
    """Index the records of one arm and set at one depth by prompt."""
    chosen = [record for record in records if record.counts.num_speculative_tokens == depth]
    by_prompt = {record.prompt_id: record for record in chosen}
    if len(by_prompt) != len(chosen):
        raise MeasurementError(f"a prompt is counted twice at K={depth}; pass one measurement at a time")
    return by_prompt


def _check_drafts(num_drafts: int, min_drafts: int, where: str) -> None:
    if num_drafts < max(1, min_drafts):
        raise MeasurementError(f"{where}: {num_drafts} drafts, {max(1, min_drafts)} are needed; measure more prompts")


def _counts_table(records: Sequence[PromptRecord], depth: int, min_drafts: int) -> np.ndarray:
    """Return (num_prompts, 1 + depth): drafts, then accepted per position, of one arm."""
    by_prompt = _at_depth(records, depth)
    _check_drafts(sum(record.counts.num_drafts for record in by_prompt.values()), min_drafts, f"counts at K={depth}")
    return np.array([[r.counts.num_drafts, *r.counts.num_accepted_tokens_per_pos] for r in by_prompt.values()], float)


def paired_counts(records: Sequence[PromptRecord], prompt_set: str, depth: int, min_drafts: int) -> np.ndarray:
    """Return (num_prompts, 4): base drafts and accepted, adapted drafts and accepted, prompts in one order."""
    arms = {
        arm: _at_depth([r for r in records if r.prompt_set == prompt_set and r.arm == arm], depth)
        for arm in ("base", "adapted")
    }
    base, adapted = arms["base"], arms["adapted"]
    if set(base) != set(adapted):
        raise MeasurementError(
            f"prompt set {prompt_set!r} at K={depth}: the arms share {len(set(base) & set(adapted))} of {len(base)} "
            f"base and {len(adapted)} adapted prompts; a paired effect needs the same prompts in both"
        )
    for arm, found in arms.items():
        num_drafts = sum(record.counts.num_drafts for record in found.values())
        _check_drafts(num_drafts, min_drafts, f"prompt set {prompt_set!r}, arm {arm!r} at K={depth}")
    pairs = [(base[prompt].counts, adapted[prompt].counts) for prompt in sorted(base)]
    return np.array(
        [[b.num_drafts, b.num_accepted_tokens, a.num_drafts, a.num_accepted_tokens] for b, a in pairs], float
    )


def _bootstrap(
    table: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], *, level: float, num_bootstrap: int, seed: int
) -> Interval:
    """Return a statistic of column sums with the percentile interval of a cluster bootstrap over rows.

    References: Davison and Hinkley 1997, section 3.8 (resampling clusters), section 5.3 (percentile limits).
    """
    draws = statistic(_weights(len(table), num_bootstrap, seed) @ table)
    return percentile_interval(float(statistic(table.sum(axis=0)[None])[0]), draws, level)


@lru_cache(maxsize=4)
def _weights(num_prompts: int, num_bootstrap: int, seed: int) -> np.ndarray:
    """Return how often each prompt is drawn, shape ``(num_bootstrap, num_prompts)``: the same for every statistic."""
    drawn = np.random.default_rng(seed).multinomial(num_prompts, np.full(num_prompts, 1 / num_prompts), num_bootstrap)
    return drawn.astype(float)  # a product of floats is many times as quick, and exact here
