"""What must hold between the eight files of a tier: each can be right alone and wrong beside another."""

from typing import TYPE_CHECKING

from lora_spec.config.domains import unknown_domain_hint
from lora_spec.errors import ConfigError

if TYPE_CHECKING:
    from lora_spec.config.tier import Tier

_MAX_PROMPT_TOKENS = 128
"""Room that every prompt is sure of, chat template included; the longest that any domain makes today takes half."""


def check_together(tier: "Tier") -> None:
    """Refuse files that are right alone and wrong together.

    Raises
    ------
    ConfigError
        With the two keys that contradict each other.
    """
    for check in _CHECKS:
        problem = check(tier)
        if problem:
            raise ConfigError(f"{tier.folder}: {problem}")


def _check_name(tier: "Tier") -> str | None:
    if tier.models.tier != tier.name:
        return f"models.yaml says tier: {tier.models.tier}, but the folder is {tier.name!r}; make them equal"
    if tier.phase0_runtime.vllm_version != tier.models.engine.vllm_version:
        return (
            f"phase0_runtime.yaml vllm_version {tier.phase0_runtime.vllm_version} is not "
            f"models.yaml engine.vllm_version {tier.models.engine.vllm_version}; make them equal"
        )
    return None


def _check_level(tier: "Tier") -> str | None:
    measured, decided = tier.phase1_measurement.level, tier.gate.level
    if measured != decided:
        return (
            f"phase1_measurement.yaml level {measured:g} is not gate.yaml level {decided:g}; make them equal, since "
            "one verdict rests on intervals of both"
        )
    return None


def _check_depths(tier: "Tier") -> str | None:
    phase1, gate = tier.phase1_measurement, tier.gate
    if phase1.num_speculative_tokens != gate.standing_num_speculative_tokens:
        return (
            f"phase1_measurement.yaml num_speculative_tokens {phase1.num_speculative_tokens} is not gate.yaml "
            f"standing_num_speculative_tokens {gate.standing_num_speculative_tokens}; make them equal"
        )
    too_deep = [depth for depth in gate.candidate_depths if depth > phase1.max_depth]
    untimed = [depth for depth in gate.candidate_depths if depth not in phase1.step_time.depths]
    if too_deep or untimed:
        return (
            f"gate.yaml candidate_depths {too_deep or untimed} are not measured; phase1_measurement.yaml has "
            f"max_depth {phase1.max_depth} and step_time.depths {list(phase1.step_time.depths)}"
        )
    return None


def _check_lengths(tier: "Tier") -> str | None:
    limit = tier.models.engine.max_model_len
    longest = max(entry.max_tokens for entry in tier.prompts.sets)
    needed = _MAX_PROMPT_TOKENS + longest + tier.phase1_measurement.max_depth
    if needed > limit:
        return (
            f"prompts.yaml max_tokens {longest} leaves no room for a prompt in models.yaml "
            f"engine.max_model_len {limit}: prompt, output and the deepest draft take {needed}; "
            "lower one or raise the other"
        )
    timed = tier.phase1_measurement.step_time.num_tokens
    if timed > limit:
        return (
            f"phase1_measurement.yaml step_time takes a request to {timed} tokens (num_context_tokens and its steps at "
            f"every depth), models.yaml engine.max_model_len is {limit}; shorten one or raise the other"
        )
    timed = tier.phase1_measurement.cost_parts.num_tokens
    if timed > limit:
        return (
            f"phase1_measurement.yaml cost_parts takes a request to {timed} tokens, models.yaml engine.max_model_len "
            f"is {limit}; shorten its prompts or raise the other"
        )
    return None


def _check_batches(tier: "Tier") -> str | None:
    limit = tier.models.engine.max_num_seqs
    too_large = [size for size in tier.phase1_measurement.step_time.batch_sizes if size > limit]
    if too_large:
        return (
            f"phase1_measurement.yaml step_time.batch_sizes {too_large} exceed models.yaml engine.max_num_seqs {limit}"
        )
    largest = tier.phase1_measurement.cost_parts.max_batch_size
    if largest > limit:
        return f"phase1_measurement.yaml cost_parts: batch {largest} exceeds models.yaml engine.max_num_seqs {limit}"
    return None


def _check_drafters(tier: "Tier") -> str | None:
    if "early" in tier.phase1_measurement.counting.drafters and tier.models.primary.early_drafter is None:
        return "phase1_measurement.yaml counting.drafters holds early, but models.yaml has no primary.early_drafter"
    return None


def _check_base_profile(tier: "Tier") -> str | None:
    profile, fit = tier.models.base_profile, tier.prompts.find("common", "fit")
    if profile is None:
        if tier.gate.predictor.mode == "checkpoint_base":
            return "gate.yaml predictor.mode is checkpoint_base; models.yaml needs a base_profile block"
        return None
    if fit is None:
        return "models.yaml has a base_profile, but prompts.yaml has no common set of role fit to read; add one"
    if profile.num_prompts > fit.num_prompts or profile.max_tokens > fit.max_tokens:
        return (
            f"models.yaml base_profile reads {profile.num_prompts} prompts per domain to {profile.max_tokens} tokens; "
            f"prompts.yaml common fit has {fit.num_prompts} to {fit.max_tokens}; lower the one or raise the other"
        )
    if profile.num_positions > profile.num_prompts * len(fit.sha256) * profile.max_tokens:
        return f"models.yaml base_profile.num_positions {profile.num_positions}: more than its texts can hold; lower it"
    return None


def _check_confirm(tier: "Tier") -> str | None:
    has_pair, has_pool = tier.models.confirm is not None, tier.adapter_pool.confirm_pool is not None
    if has_pair != has_pool:
        return (
            f"models.yaml confirm is {'there' if has_pair else 'null'} and adapter_pool.yaml confirm_pool is "
            f"{'there' if has_pool else 'null'}; a second pair and the adapters for it go together"
        )
    return None


def _check_phase0_adapters(tier: "Tier") -> str | None:
    unknown = [name for name in tier.phase0_runtime.adapters.names if name not in tier.adapter_pool.names]
    if unknown:
        return f"phase0_runtime.yaml adapters.names {unknown} are not in adapter_pool.yaml; name adapters of the pool"
    return None


def _check_ranks(tier: "Tier") -> str | None:
    limit, timed = tier.models.engine.max_lora_rank, tier.phase1_measurement.step_time.lora_rank
    # A published adapter's rank is known only once it is there.
    ranks = {row.name: getattr(row, "rank", None) for row in tier.adapter_pool.adapters}
    for name, rank in ranks.items():
        if rank is not None and rank > limit:
            return f"adapter_pool.yaml {name}: rank {rank} exceeds models.yaml engine.max_lora_rank {limit}"
    loaded = tier.phase1_measurement.cost_parts.max_lora_rank
    if loaded > limit:
        return (
            f"phase1_measurement.yaml cost_parts.load_ranks {loaded} exceeds models.yaml engine.max_lora_rank {limit}"
        )
    if timed not in ranks.values() and None not in ranks.values():
        known = ", ".join(map(str, sorted(set(ranks.values()))))
        return (
            f"phase1_measurement.yaml step_time.lora_rank {timed} is the rank of no adapter in adapter_pool.yaml, "
            f"so nothing could be served while timing; its ranks are {known}"
        )
    return None


def _check_prompt_hashes(tier: "Tier") -> str | None:
    unknown = [d for d in tier.prompts.own_evaluation.sha256 if d not in tier.adapter_pool.domains]
    missing = [d for d in tier.adapter_pool.domains if d not in tier.prompts.own_evaluation.sha256]
    if unknown or missing:
        return (
            f"prompts.yaml own evaluation sha256 lists domains {unknown or missing} "
            f"{'that no adapter has' if unknown else 'not, which adapter_pool.yaml uses'}; "
            f"list exactly {', '.join(tier.adapter_pool.domains)}"
        )
    return None


def _check_domains(tier: "Tier") -> str | None:
    for row in tier.adapter_pool.adapters:
        if hint := unknown_domain_hint(row.domain, with_chat=False):
            return f"adapter_pool.yaml {row.name}: no domain {row.domain!r}; {hint}"
    for entry in tier.prompts.sets:
        for domain in entry.sha256:
            if hint := unknown_domain_hint(domain, with_chat=entry.prompt_set == "common"):
                return f"prompts.yaml {entry.prompt_set} {entry.role}: no domain {domain!r}; {hint}"
    return None


def _check_mixes(tier: "Tier") -> str | None:
    unknown = sorted(set(tier.baselines.mixes.patterns) - {pattern.name for pattern in tier.traffic.patterns})
    if unknown:
        return (
            f"baselines.yaml mixes names pattern {unknown[0]!r}, which traffic.yaml does not have; name one of its own"
        )
    return None


_CHECKS = (
    _check_name,
    _check_domains,
    _check_level,
    _check_depths,
    _check_lengths,
    _check_batches,
    _check_drafters,
    _check_base_profile,
    _check_confirm,
    _check_phase0_adapters,
    _check_ranks,
    _check_prompt_hashes,
    _check_mixes,
)
