"""Traffic of a fleet, as a file says it."""

import json

import pytest

from lora_spec.errors import ConfigError
from lora_spec.gate.fleet_mix import read_traffic


def test_traffic_is_read_from_a_json_object(tmp_path):
    path = tmp_path / "traffic.json"
    path.write_text(json.dumps({"a": 3, "two words": 0.5}))
    assert read_traffic(path) == {"a": 3.0, "two words": 0.5}


@pytest.mark.parametrize(
    "text", ["[1]", '{"a": "x"}', '{"a": true}', '{"a": 1, "a": 2}', "", '{"a": null}', '{"a": NaN}']
)
def test_anything_else_is_refused_with_the_file_named(tmp_path, text):
    path = tmp_path / "traffic.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"traffic\.json"):
        read_traffic(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no readable traffic"):
        read_traffic(tmp_path / "none.json")
