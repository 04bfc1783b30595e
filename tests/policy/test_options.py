from pathlib import Path

import pytest

from lora_spec.policy.options import Options, read_options


def test_vllms_configuration_comes_before_the_environment():
    environment = {"LORA_SPEC_POLICY": "/env/policy.json"}
    assert read_options({}, environment).policy == Path("/env/policy.json")
    given = {"lora_spec": {"policy": "given.json", "adapters": ["a"], "poll_s": 2, "metrics_port": 9400}}
    assert read_options(given, environment) == Options(Path("given.json"), frozenset({"a"}), 2.0, 9400)


@pytest.mark.parametrize("nothing", [{}, {"lora_spec": {}}, {"other": 1}, None])
def test_nothing_said_means_no_policy(nothing):
    assert read_options(nothing, {}) == Options()


@pytest.mark.parametrize(
    "wrong",
    [
        "policy.json",
        {"polcy": "p.json"},
        {"policy": ""},
        {"policy": 1},
        {"policy": "a\0b"},
        {"policy": "\ud800"},
        {"adapters": "sql"},
        {"adapters": [1]},
        {"poll_s": -1},
        {"poll_s": True},
        {"metrics_port": 0.5},
        {"metrics_port": 70000},
    ],
)
def test_what_makes_no_sense_stops_the_engine(wrong):
    with pytest.raises(ValueError, match="lora_spec"):
        read_options({"lora_spec": wrong}, {})
