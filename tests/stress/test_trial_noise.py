"""Live trials beside their noise: known noise is found, clear pairs are ordered, ties are not asked for."""

import numpy as np
import pytest

from lora_spec.errors import MeasurementError
from lora_spec.stress.trial_noise import against_noise, trial_noise


def _trials(**by_policy):
    return {name: dict(enumerate(values)) for name, values in by_policy.items()}


def test_noise_is_that_of_the_trials_whatever_their_arrivals_and_the_simulators_bias():
    rng = np.random.default_rng(0)
    arrivals = np.exp(rng.normal(size=(3, 400)))
    simulated = _trials(**{f"p{i}": list(row) for i, row in enumerate(arrivals)})
    noisy = arrivals * 1.3 * np.exp(0.1 * rng.normal(size=arrivals.shape))
    live = _trials(**{f"p{i}": list(row) for i, row in enumerate(noisy)})
    assert trial_noise(live, simulated) == pytest.approx(0.1, rel=0.08)


def test_one_trial_has_no_noise_and_no_clear_pair():
    one = _trials(a=[100.0], b=[200.0])
    found = against_noise(one, one, {"a": 0.0, "b": 0.0})
    assert found["run_to_run_noise"] is None
    assert (found["num_pairs"], found["num_clear_pairs"]) == (1, 0)


def test_a_noisy_machine_allows_more_and_a_quiet_one_eight_percent():
    simulated = _trials(a=[100.0, 100.0])
    quiet, noisy = _trials(a=[100.0, 101.0]), _trials(a=[100.0, 150.0])
    assert against_noise(quiet, simulated, {"a": -0.09})["max_tpot_mape"] == 0.08
    assert not against_noise(quiet, simulated, {"a": -0.09})["is_tpot_mape_met"]
    assert against_noise(noisy, simulated, {"a": -0.09})["is_tpot_mape_met"]


def test_only_pairs_that_trials_tell_apart_are_to_be_ordered_alike():
    live = _trials(fast=[100.0, 102.0, 98.0], tie=[103.0, 99.0, 100.0], slow=[150.0, 155.0, 149.0])
    errors = dict.fromkeys(live, 0.0)
    turned = {"fast": live["tie"], "tie": live["fast"], "slow": live["slow"]}
    found = against_noise(live, turned, errors)
    assert (found["num_pairs"], found["num_clear_pairs"], found["num_reversed_clear_pairs"]) == (3, 2, 0)
    wrong = {"fast": live["slow"], "tie": live["tie"], "slow": live["fast"]}
    assert against_noise(live, wrong, errors)["num_reversed_clear_pairs"] == 2


def test_trials_of_one_side_only_are_refused():
    with pytest.raises(MeasurementError, match="not of the same policies and seeds"):
        against_noise(_trials(a=[1.0, 2.0]), _trials(a=[1.0]), {"a": 0.0})
