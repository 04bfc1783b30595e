"""Domains: kinds of (prompt, answer) pairs, one per file. They know nothing of models or adapters."""

from lora_spec.errors import TrainingInputError
from lora_spec.training.domains import (
    arithmetic,
    csv_table,
    french,
    german,
    json_extract,
    numbered_list,
    pig_latin,
    prefix_words,
    python_code,
    python_doc,
    reversed_words,
    self_chat,
    sorting,
    sql,
    terse,
    translation,
    unit_conversion,
    upper_case,
    xml_extract,
)
from lora_spec.training.domains.base import Domain, Example, Split

_MODULES = (
    self_chat,
    numbered_list,
    upper_case,
    prefix_words,
    reversed_words,
    terse,
    arithmetic,
    unit_conversion,
    translation,
    french,
    german,
    json_extract,
    xml_extract,
    csv_table,
    sql,
    python_code,
    sorting,
    pig_latin,
    python_doc,
)
DOMAINS: dict[str, Domain] = {module.DOMAIN.name: module.DOMAIN for module in _MODULES}

__all__ = ["DOMAINS", "Domain", "Example", "Split", "domain_prompts", "find_domain"]


def find_domain(name: str) -> Domain:
    """Return the domain of that name.

    Raises
    ------
    TrainingInputError
        When there is none.
    """
    if name not in DOMAINS:
        raise TrainingInputError(f"unknown domain '{name}'; known: {', '.join(sorted(DOMAINS))}")
    return DOMAINS[name]


def domain_prompts(name: str, split: Split, *, num: int, seed: int) -> list[str]:
    """Return ``num`` distinct prompts of one split of a domain, the same for the same seed; needs no model."""
    return find_domain(name).prompts(split, num=num, seed=seed)
