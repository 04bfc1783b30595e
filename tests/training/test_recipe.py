import json
import math
from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.errors import TrainingError
from lora_spec.training.recipe import AdapterRecipe, RandomRecipe, ScaledRecipe, recipe_of_row

ROW = {
    "name": "json",
    "domain": "json_extract",
    "stratum": "moderate",
    "rank": 16,
    "alpha": 32,
    "target_modules": ["q_proj", "v_proj"],
    "learning_rate": 1e-3,
    "num_steps": 10,
    "batch_size": 4,
    "seed": 1,
    "license": "CC0-1.0",
}


def test_recipe_survives_the_round_trip():
    row = AdapterRecipe.from_dict(ROW)
    assert AdapterRecipe.from_dict(row.to_dict()) == row
    assert row.target_modules == ("q_proj", "v_proj")


def test_rank_stabilised_scale_divides_by_the_root_of_the_rank():
    assert AdapterRecipe.from_dict(ROW).lora_scale == 2.0
    assert math.isclose(AdapterRecipe.from_dict({**ROW, "use_rslora": True}).lora_scale, 8.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stratum": "wild"}, "stratum = 'wild' must be one of benign"),
        ({"rank": 0}, "rank = 0 must be at least 1"),
        ({"batch_size": 0}, "batch_size = 0 must be at least 1"),
        ({"target_modules": []}, "target_modules = .* must name"),
        ({"num_steps": 0}, "num_steps = 0 must be positive"),
        ({"learning_rate": -1.0}, "learning_rate = -1.0 must be positive"),
        ({"stratum": "control"}, "num_steps = 10 must be 0 for a control"),
        ({"lora_plus_ratio": 0.5}, "lora_plus_ratio = 0.5 must be at least 1"),
        ({"rnk": 3}, "unknown keys rnk; known: .*rank"),
    ],
)
def test_a_wrong_value_is_named_with_its_row_and_key(change, message):
    with pytest.raises(TrainingError, match=f"adapter row 'json': {message}"):
        AdapterRecipe.from_dict({**ROW, **change})


def test_a_missing_key_is_an_error():
    with pytest.raises(TrainingError, match=r"adapter row 'json': .*'seed'"):
        AdapterRecipe.from_dict({key: value for key, value in ROW.items() if key != "seed"})


COPY = {"name": "copy", "domain": "json_extract", "stratum": "control", "license": "CC0-1.0", "parent": "json"}


@pytest.mark.parametrize(
    ("row", "recipe"),
    [
        ({**ROW, "source": "trained"}, AdapterRecipe.from_dict(ROW)),
        ({**COPY, "source": "scaled", "scale": 0.5}, ScaledRecipe(**COPY, scale=0.5)),
        ({**COPY, "source": "random", "seed": 3}, RandomRecipe(**COPY, seed=3)),
    ],
    ids=lambda value: value["source"] if isinstance(value, dict) else "",
)
def test_a_row_of_the_pool_becomes_the_recipe_of_its_source(row, recipe):
    assert recipe_of_row(row) == recipe
    assert type(recipe).from_dict(recipe.to_dict()) == recipe


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**COPY, "source": "hub"}, "source = 'hub' is not made here; the workflow makes trained, scaled, random"),
        ({**COPY, "source": "scaled", "scale": 0.0}, "scale = 0.0 must be positive"),
        ({**COPY, "source": "scaled"}, ".*'scale'"),
        ({**COPY, "source": "random", "seed": 1, "scale": 2.0}, "unknown keys scale"),
    ],
)
def test_a_row_that_cannot_be_made_is_named(row, message):
    with pytest.raises(TrainingError, match=f"adapter row 'copy': {message}"):
        recipe_of_row(row)


@pytest.mark.parametrize("tier", ["mini", "cpu"])
def test_a_shipped_adapter_carries_the_recipe_of_its_row(tier):
    root = Path(__file__).parents[2]
    for row in load_tier(root, tier).adapter_pool.adapters:
        if row.source == "shipped":
            shipped = json.loads((root / row.path / "recipe.json").read_text())["row"]
            wanted = {key: value for key, value in row.to_dict().items() if key in shipped}
            assert AdapterRecipe.from_dict(shipped) == AdapterRecipe.from_dict(wanted)
