"""Every registered policy keeps the contract; the ones that learn learn what they should."""

from pathlib import Path

import numpy as np
import pytest
from stress_cases import COST, RATES, SERVER, adapters, loads, poisson, requests, situation

from lora_spec.config import read_config
from lora_spec.config.baselines import BaselinesConfig
from lora_spec.errors import ConfigError
from lora_spec.stress.policies.mix_depths import best_mix_depths
from lora_spec.stress.policies.online_bandit import OnlineBandit
from lora_spec.stress.policies.predictor_gated import lengths_of
from lora_spec.stress.policies.registry import POLICIES, make_candidates
from lora_spec.stress.policies.rolling_acceptance_gate import RollingGate
from lora_spec.stress.simulator.fleet import Fleet, simulate

NOT_SIMULATED = {"merged_own_pool", "direct_probe"}
OURS = {"policy_file", "policy_file_live"}


def _schedule(seed=1, num=120):
    rng = np.random.default_rng(seed)
    names = [list(RATES)[i] for i in rng.integers(len(RATES), size=num)]
    return requests(poisson(1.0, num, seed), adapter=names, prompt=16, output=60)


def _run(make, seed=0):
    return simulate(_schedule(), Fleet(SERVER, COST, adapters(RATES)), make, seed=seed, drain_s=1e6)


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_serves_all_with_possible_depths_and_the_same_each_time(name):
    for label, make in make_candidates(name, situation()).items():
        chooser = make()
        chooser.begin_step(3, 0.0)
        assert all(0 <= chooser.depth(adapter) <= 3 for adapter in (*RATES, "stranger")), label
        first, again = _run(make), _run(make)
        assert first == again
        assert [record.num_output_tokens for record in first.records] == [60] * len(first.records)
        assert [record.due_s for record in first.records] == [request.arrival_s for request in _schedule()]


def test_names_are_those_of_the_baselines_beside_our_own():
    config = read_config(Path(__file__).parents[2] / "configs" / "baselines.yaml", BaselinesConfig)
    assert set(POLICIES) == set(config.names) - NOT_SIMULATED | OURS


def test_an_unknown_policy_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"no policy 'magic'; there are always_off, "):
        make_candidates("magic", situation())


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("predictor_gated_disablement", "expected"),
        ("predictor_gated_shortened_depth", "expected"),
        ("policy_file", "policy"),
        ("policy_file_live", "policy"),
    ],
)
def test_a_policy_without_what_it_needs_says_so(name, missing):
    with pytest.raises(ConfigError, match=name):
        make_candidates(name, situation(**{missing: None}))


def test_only_the_bound_looks_at_true_acceptance():
    blind = situation(acceptance={})
    for name in set(POLICIES) - {"oracle"}:
        assert make_candidates(name, blind)


def test_live_control_demotes_what_loses_and_leaves_what_gains():
    optimist = situation(policy=situation().policy.__class__(3, loads(), (3, 3), {}, situation().policy.live))
    (make,) = make_candidates("policy_file_live", optimist).values()
    chooser = make()
    chooser.begin_step(1, 100.0)
    for _ in range(200):
        for adapter, accepted in (("bad", 0), ("good", 3)):
            chooser.observe(adapter, chooser.depth(adapter), accepted)
    assert (chooser.depth("bad"), chooser.depth("good")) == (0, 3)
    assert chooser.changes == {"demoted": 1}


def test_the_rolling_gate_shuts_for_one_adapter_and_for_good():
    gate = RollingGate(depth=2, window_drafts=4, min_acceptance_rate=0.25)
    for accepted in (2, 2, 0, 0, 0, 0):
        assert gate.depth("bad") == 2
        gate.observe("bad", 2, accepted)
    assert (gate.depth("bad"), gate.depth("good")) == (0, 2)
    gate.observe("bad", 2, 2)
    assert gate.depth("bad") == 0


def test_the_bandit_ends_at_the_depth_that_gives_most_per_time():
    made = loads(sizes=(8,))
    rng, rates = np.random.default_rng(0), np.array(RATES["fair"])
    bandit = OnlineBandit(made, max_depth=3, first_depth=3, window_drafts=16, exploration_share=0.2, seed=1)
    bandit.begin_step(8, 0.0)
    lengths = lengths_of(RATES["fair"], 3)
    best = max(range(4), key=lambda depth: lengths[depth] / made[0].step_time_ratios[depth])
    spent = []
    for _ in range(20_000):
        depth = bandit.depth("fair")
        spent.append(depth)
        bandit.observe("fair", depth, min(depth, int((rng.random() < rates).sum())))
    assert np.mean(np.array(spent[10_000:]) == best) > 0.7


@pytest.mark.parametrize(("size", "least"), [(1, 1.0), (2, 0.97), (6, 0.99)])
def test_mix_depths_are_nearly_the_best_of_all_depths_tried_one_by_one(size, least):
    """Two adapters, every pair of depths, expected goodput of batches drawn from the mix in closed form."""
    names, share = ["good", "fair"], {"good": 0.3, "fair": 0.7}
    rates = {name: RATES[name] for name in names}
    lengths = {name: lengths_of(RATES[name], 3) for name in names}

    def goodput(pair):
        gives = [lengths[name][depth] for name, depth in zip(names, pair, strict=True)]
        places = np.array([share[name] / tokens for name, tokens in zip(names, gives, strict=True)])
        places /= places.sum()
        tokens = lasts = 0.0
        for batch in np.ndindex(*[2] * size):
            weight = np.prod(places[list(batch)])
            tokens += weight * sum(gives[i] for i in batch)
            lasts += weight * COST.step_ms([pair[i] for i in batch], num_prefill_tokens=0, num_context_tokens=64 * size)
        return tokens / lasts

    found = best_mix_depths(rates, share, loads(sizes=(size,)), COST, max_depth=3)
    chosen = goodput([found[name][0] for name in names])
    best = max(goodput(pair) for pair in np.ndindex(4, 4))
    assert chosen >= best * least * (1 - 1e-12)
