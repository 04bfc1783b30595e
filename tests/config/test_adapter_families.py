"""Families partition what they are families of."""

from collections import Counter
from pathlib import Path

from lora_spec.config import load_tier
from lora_spec.config.adapter_families import SOURCE_FAMILIES, families_of
from lora_spec.config.domains import DOMAIN_NAMES

POOL = load_tier(Path(__file__).parents[2], "cpu").adapter_pool


def test_every_domain_stands_in_one_family():
    assert sorted(domain for domains in SOURCE_FAMILIES.values() for domain in domains) == sorted(DOMAIN_NAMES)


def test_every_adapter_of_the_cpu_pool_has_one_family_of_each_kind_and_a_copy_has_its_parents():
    found = families_of(POOL, POOL.names)
    assert {tuple(sorted(families)) for families in found.values()} == {("method", "modules", "source")}
    assert found["json_extract_r4_qv_double"] == found["json_extract_r4_qv"]
    assert found["json_extract_r4_qv"] == {"method": "lora", "modules": "q+v", "source": "extraction_and_format"}
    assert found["prefix_words_r8_qv_rs"]["method"] == "rslora"
    assert found["terse_r8_qv_plus"]["method"] == "lora_plus"


def test_the_methods_of_the_pool_are_those_of_its_design():
    found = families_of(POOL, POOL.separate)
    assert Counter(families["method"] for families in found.values()) == {"lora": 20, "rslora": 15, "lora_plus": 13}
    assert Counter(families["modules"] for families in found.values()).most_common(1) == [("q+v", 26)]
