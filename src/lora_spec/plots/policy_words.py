"""Policies as figures call them."""

_WORDS = {
    "always_off": "always off",
    "always_standing_k": "always {standing}",
    "best_static_k": "best static K",
    "best_for_the_base": "best K for the base's acceptance",
    "rolling_acceptance_gate": "rolling-acceptance gate",
    "online_bandit": "online bandit",
    "predictor_gated_disablement": "predicted: off or {standing}",
    "predictor_gated_shortened_depth": "predicted best K",
    "direct_probe": "best K",
    "merged_own_pool": "hot ones merged, others {standing}",
    "policy_file": "policy file",
    "policy_file_live": "policy file, live rule",
    "verdicts": "verdicts",
}


def policy_words(policy: str, standing_depth: int | None = None) -> str:
    """Return a policy's name in words; the standing depth is named where it is known. Other names stay as they are."""
    standing = "standing K" if standing_depth is None else f"K={standing_depth}"
    return _WORDS[policy].format(standing=standing) if policy in _WORDS else policy
