import math

import pytest

from lora_spec.errors import TrainingError
from lora_spec.training.recipe import AdapterRecipe

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
        ({"scale": 2.0}, "scale = 2.0 needs a parent"),
        ({"rnk": 3}, "unknown keys rnk; known: .*rank"),
    ],
)
def test_a_wrong_value_is_named_with_its_row_and_key(change, message):
    with pytest.raises(TrainingError, match=f"adapter row 'json': {message}"):
        AdapterRecipe.from_dict({**ROW, **change})


def test_a_missing_key_is_an_error():
    with pytest.raises(TrainingError, match=r"adapter row 'json': .*'seed'"):
        AdapterRecipe.from_dict({key: value for key, value in ROW.items() if key != "seed"})
