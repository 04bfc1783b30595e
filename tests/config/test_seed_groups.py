"""Repeats of a recipe are found by the recipe, not by a name."""

from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.config.adapter_pool import AdapterPoolConfig
from lora_spec.config.seed_groups import recipe_groups, seed_noise_settings

REPOSITORY = Path(__file__).resolve().parents[2]
CPU = load_tier(REPOSITORY, "cpu")


@pytest.mark.parametrize("tier", ["mini", "cpu", "paper"])
def test_the_first_of_each_recipe_is_a_separate_adapter(tier):
    pool = load_tier(REPOSITORY, tier).adapter_pool
    assert tuple(group[0] for group in recipe_groups(pool)) == pool.separate


def test_the_cpu_pool_has_two_recipes_of_three_seeds():
    repeated = [group for group in recipe_groups(CPU.adapter_pool) if len(group) > 1]
    assert sorted(repeated) == [
        ("french_r2_qv_plus", "french_r2_qv_plus_seed2", "french_r2_qv_plus_seed3"),
        ("python_code_r2_qv", "python_code_r2_qv_seed2", "python_code_r2_qv_seed3"),
    ]


def test_a_group_needs_two_of_the_named_adapters():
    named = ["french_r2_qv_plus", "french_r2_qv_plus_seed3", "python_code_r2_qv", "zero"]
    found = seed_noise_settings(CPU, named)
    assert found["groups"] == [["french_r2_qv_plus", "french_r2_qv_plus_seed3"]]
    assert found["separate"] == {"french_r2_qv_plus": "french", "python_code_r2_qv": "python_code"}


def test_the_order_in_which_modules_are_listed_makes_no_other_recipe():
    row = CPU.adapter_pool.find("french_r2_qv_plus").to_dict() | {"path": "x/b", "sha256": None, "seed": 9}
    turned = row | {"name": "turned", "target_modules": row["target_modules"][::-1]}
    pool = AdapterPoolConfig.model_validate({"adapters": [CPU.adapter_pool.find(row["name"]).to_dict(), turned]})
    assert pool.separate == (row["name"],)
    assert recipe_groups(pool) == ((row["name"], "turned"),)
