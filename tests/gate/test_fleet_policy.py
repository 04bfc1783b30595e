import dataclasses
import json

import numpy as np
import pytest
from fleets import POLICY, fleet, made
from hand_made import RATIOS, SETTINGS, cost_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lora_spec.cost_model import CostModel
from lora_spec.errors import ConfigError
from lora_spec.gate.fleet_policy import depths_of, fleet_policy
from lora_spec.gate.fleet_verdicts import LoadDepth
from lora_spec.policy.policy_file import parse_policy
from lora_spec.results import result_bytes

LIVE = {
    "window_drafts": 256,
    "hysteresis": 0.05,
    "min_dwell_s": 30.0,
    "probe_interval_s": 120.0,
    "probe_drafts": 64,
    "num_standard_errors": 2.0,
}


def _payload(verdicts, *, model=None, gate=SETTINGS, **policy):
    return fleet_policy(verdicts, model or cost_model(), settings=gate, policy=POLICY | policy)


def _parsed(payload):
    data = result_bytes(kind="policy", evidence="measured", tier="mini", provenance={}, payload=payload)
    return parse_policy(data, max_depth=payload["max_num_speculative_tokens"], known_adapters=payload["adapters"])


def test_depths_are_those_of_the_best_speedup_at_each_load(tmp_path):
    # E_K T_0 / T_K at batch 1: 2.952 / 1.6 is best for 0.8; at batch 16: 2.44 / 2.3 = 1.061 beats 2.952 / 2.9 = 1.018.
    adapters = _payload(fleet(tmp_path, certain=1.0, good=0.8, hopeless=0.0))["adapters"]
    assert adapters == {"certain": [3, 3], "good": [3, 2], "hopeless": [0, 0]}


def test_loads_carry_the_step_times_over_those_of_no_drafts():
    loads = _payload([made("a", (3, 3))])["loads"]
    assert [load["max_batch_size"] for load in loads] == list(RATIOS)
    for load, ratios in zip(loads, RATIOS.values(), strict=True):
        assert load["step_time_ratios"] == pytest.approx(ratios[:4])


def test_the_policy_does_not_change_with_the_unit_of_time_or_the_order_of_adapters(tmp_path):
    verdicts, model = fleet(tmp_path, a=0.8, b=0.3, c=0.0), cost_model()
    slower = dataclasses.replace(model, median_ms=8 * model.median_ms, draws_ms=8 * model.draws_ms)
    expected = _payload(verdicts)
    assert _payload(verdicts, model=slower) == expected
    assert _payload(verdicts[::-1]) == expected


@pytest.mark.parametrize(
    ("told", "abstained", "expected"),
    [
        ((3, 2, 0), "standing", [3, 2, 0]),
        ((None, 0, None), "standing", [3, 0, 0]),
        ((1, None, 0), "standing", [1, 1, 0]),
        ((None, None, 2), "standing", [3, 3, 2]),
        ((1, None, 0), "off", [1, 0, 0]),
        ((0, 3, 3), "standing", [0, 3, 3]),
    ],
)
def test_a_load_that_abstains_runs_no_deeper_than_emptier_ones(told, abstained, expected):
    verdict = made("a", told, sizes=(1, 4, 16))
    assert depths_of(verdict, (1, 4, 16), standing=3, abstained=abstained) == expected


@pytest.mark.parametrize(("abstained", "expected"), [("standing", [3, 3]), ("off", [0, 0])])
def test_an_adapter_that_abstains_takes_what_the_config_says(abstained, expected):
    payload = _payload([made("a", (None, None), action="abstain")], abstained=abstained)
    assert payload["adapters"] == {"a": expected}
    assert payload["default"] == [3, 3]


@pytest.mark.parametrize(("abstained", "expected"), [("standing", [3, 1, 1]), ("off", [0, 1, 0])])
def test_what_an_abstaining_verdict_does_say_of_other_loads_is_obeyed(abstained, expected):
    verdict = made("a", (None, 1, None), action="abstain", sizes=(1, 4, 16))
    assert depths_of(verdict, (1, 4, 16), standing=3, abstained=abstained) == expected


def test_a_verdict_without_a_cost_model_counts_as_abstained():
    blind = dataclasses.replace(made("a", (3, 3), action="abstain"), by_load=(), speedup=None, context={})
    assert _payload([blind])["adapters"] == {"a": [3, 3]}


def test_verdicts_for_other_depths_loads_models_or_times_are_refused():
    with pytest.raises(ConfigError, match="standing depth 2"):
        _payload([made("a", (2, 2), standing=2)])
    with pytest.raises(ConfigError, match="batch size 16"):
        _payload([made("a", (3,), sizes=(1,))])
    with pytest.raises(ConfigError, match="beyond the standing"):
        _payload([made("a", (4, 3))])
    model = cost_model()
    engine = {"target": "another", "drafter": "drafter"}
    with pytest.raises(ConfigError, match="another"):
        _payload([made("a", (3, 3))], model=dataclasses.replace(model, context={"engine": engine}))
    verdict = made("a", (3, 3))
    other = dataclasses.replace(verdict, context={**verdict.context, "parts": {"verify_ms": 1.0}})
    with pytest.raises(ConfigError, match="other step times"):
        _payload([other], model=dataclasses.replace(model, context={"parts": {"verify_ms": 2.0}}))


def test_loads_that_are_no_whole_number_of_requests_are_left_out():
    gate = dataclasses.replace(SETTINGS, headline_batch_size=2.5, batch_sizes=(1, 16))
    assert [load["max_batch_size"] for load in _payload([made("a", (3, 3))], gate=gate)["loads"]] == [1, 16]
    with pytest.raises(ConfigError, match="whole number"):
        _payload([], gate=dataclasses.replace(gate, batch_sizes=(1.5,)))


@st.composite
def _fleets(draw):
    standing = draw(st.integers(1, 4))
    sizes = tuple(sorted(draw(st.sets(st.integers(1, 64), min_size=1, max_size=5))))
    names = draw(st.lists(st.text(min_size=1, max_size=20), unique=True, max_size=6))
    depth = st.none() | st.integers(0, standing)
    verdicts = []
    for name in names:
        depths = draw(st.tuples(*[depth] * len(sizes)))
        action = "abstain" if depths[0] is None else draw(st.sampled_from(["green", "amber", "red", "abstain"]))
        verdicts.append(made(name, depths, action=action, sizes=sizes, standing=standing))
    return standing, sizes, verdicts


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_fleets(), st.sampled_from(["standing", "off"]), st.sampled_from([None, LIVE]), st.integers(0, 2**32 - 1))
def test_the_engines_reader_takes_every_policy_and_reads_the_depths_that_were_meant(drawn, abstained, live, seed):
    standing, sizes, verdicts = drawn
    rng = np.random.default_rng(seed)
    # Times that rise with the batch: a line through them stays above nothing.
    times = np.cumsum(np.exp(rng.normal(size=(5, 2))), axis=1) * 10
    model = CostModel((0, 1, 2, 3, 4), (1, 64), times, np.repeat(times[None], 10, axis=0), {})
    gate = dataclasses.replace(
        SETTINGS, standing_num_speculative_tokens=standing, headline_batch_size=sizes[0], batch_sizes=sizes
    )
    payload = _payload(verdicts, model=model, gate=gate, abstained=abstained, live=live)
    policy = _parsed(payload)
    assert json.loads(json.dumps(payload)) == payload
    for verdict in verdicts:
        expected = depths_of(verdict, sizes, standing=standing, abstained=abstained)
        assert policy.depths_of(verdict.name) == tuple(expected)
    assert policy.depths_of(None) == (standing,) * len(sizes)


def test_a_load_in_doubt_goes_by_the_estimates_of_a_verdict_that_is_not():
    """The depth of the largest speedup there, the deepest of equals, and never deeper than at an emptier load."""
    table = {0: 1.0, 1: 1.1, 2: 1.1, 3: 1.3}
    speedups = {k: (value, value - 0.5, value + 0.5) for k, value in table.items()}
    loads = (LoadDepth(1, "amber", 2, speedups), LoadDepth(16, "abstain", None, speedups))
    verdict = dataclasses.replace(made("a", (2, None), action="amber"), by_load=loads)
    asked = {"standing": 3, "abstained": "off"}
    assert depths_of(verdict, [1, 16], **asked) == [2, 2]
    assert depths_of(dataclasses.replace(verdict, action="abstain"), [1, 16], **asked) == [2, 0]
