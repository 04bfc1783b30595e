"""Domains: kinds of (prompt, answer) pairs, one per file. They know nothing of models or adapters."""

from lora_spec.errors import TrainingError
from lora_spec.training.domains import json_extract, numbered_list, prefix_words, self_chat, sql, upper_case
from lora_spec.training.domains.base import Domain, Example, Split

DOMAINS: dict[str, Domain] = {
    module.DOMAIN.name: module.DOMAIN
    for module in (self_chat, numbered_list, json_extract, sql, upper_case, prefix_words)
}

__all__ = ["DOMAINS", "Domain", "Example", "Split", "domain_prompts", "find_domain"]


def find_domain(name: str) -> Domain:
    """Return the domain of that name.

    Raises
    ------
    TrainingError
        When there is none.
    """
    if name not in DOMAINS:
        raise TrainingError(f"unknown domain '{name}'; known: {', '.join(sorted(DOMAINS))}")
    return DOMAINS[name]


def domain_prompts(name: str, split: Split, *, num: int, seed: int) -> list[str]:
    """Return ``num`` distinct prompts of one split of a domain, the same for the same seed; needs no model."""
    return find_domain(name).prompts(split, num=num, seed=seed)
