"""Traffic of a fleet, as a file says it."""

import json

import pytest
from fleets import fleet
from hand_made import cost_model

from lora_spec.errors import ConfigError
from lora_spec.gate.fleet_mix import fleet_mix, read_traffic


def test_traffic_is_read_from_a_json_object(tmp_path):
    path = tmp_path / "traffic.json"
    path.write_text(json.dumps({"a": 3, "two words": 0.5}))
    assert read_traffic(path, ["two words", "a", "idle"]) == {"a": 3.0, "two words": 0.5}


@pytest.mark.parametrize(
    "text", ["[1]", '{"a": "x"}', '{"a": true}', '{"a": 1, "a": 2}', "", '{"a": null}', '{"a": NaN}']
)
def test_anything_else_is_refused_with_the_file_named(tmp_path, text):
    path = tmp_path / "traffic.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"traffic\.json"):
        read_traffic(path, ["a"])


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no readable traffic"):
        read_traffic(tmp_path / "none.json", ["a"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"b": 1}', "traffic of adapter b"),
        ('{"a": -1}', "adapter a is -1.0"),
        ('{"a": 0}', "no adapter has any traffic"),
        ("{}", "no adapter has any traffic"),
    ],
)
def test_traffic_that_cannot_be_is_refused_with_the_file_named(tmp_path, text, told):
    path = tmp_path / "traffic.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"traffic\.json: .*{told}"):
        read_traffic(path, ["a"])


@pytest.mark.parametrize("tokens", [5e-324, 1.0, 1e308])
def test_shares_do_not_depend_on_the_unit_however_large_the_numbers_are(tmp_path, tokens):
    verdicts = fleet(tmp_path, a=0.9, b=0.1, c=0.5)
    depths, shares = dict.fromkeys("abc", 1), dict.fromkeys("abc", tokens)
    found = fleet_mix(verdicts, depths, cost_model(), batch_size=1, shares=shares)
    assert found.shares.tolist() == pytest.approx([1 / 3] * 3)
