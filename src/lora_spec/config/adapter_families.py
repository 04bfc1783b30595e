"""The families that adapters fall into by design: by method, by modules, by the kind of thing their source teaches.

Fixed by the pool's rows before anything is measured, so that a whole family can be left out.
"""

from collections.abc import Iterable
from typing import Literal

from lora_spec.config.adapter_pool import AdapterPoolConfig, TrainedAdapter

FamilyKind = Literal["method", "modules", "source"]

SOURCE_FAMILIES = {
    "text_transformation": ("pig_latin", "prefix_words", "reversed_words", "upper_case"),
    "languages": ("french", "german", "translation"),
    "extraction_and_format": ("csv_table", "json_extract", "xml_extract"),
    "code_and_arithmetic": ("arithmetic", "python_code", "python_doc", "sorting", "sql", "unit_conversion"),
    "chat": ("numbered_list", "self_chat", "terse"),
}
"""Every domain stands in one family."""


def families_of(pool: AdapterPoolConfig, names: Iterable[str]) -> dict[str, dict[FamilyKind, str]]:
    """Return adapter to family by kind; a copy is of its parent's families.

    An adapter without a recipe, such as one from a hub, has no known method and modules.
    """
    return {name: _families(pool, name) for name in names}


def _families(pool: AdapterPoolConfig, name: str) -> dict[FamilyKind, str]:
    row = pool.find_origin(name)
    found: dict[FamilyKind, str] = {}
    for family, domains in SOURCE_FAMILIES.items():
        if row.domain in domains:
            found["source"] = family
    if isinstance(row, TrainedAdapter):
        found["method"] = _method(row)
        found["modules"] = "+".join(sorted(module.removesuffix("_proj") for module in row.target_modules))
    return found


def _method(row: TrainedAdapter) -> str:
    parts = ["lora_plus"] if row.lora_plus_ratio > 1 else []
    return "+".join([*parts, *(["rslora"] if row.use_rslora else [])]) or "lora"
