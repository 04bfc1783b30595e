"""The whole comparison on a few hand-made adapters: from verdicts' files to a payload that its reader takes."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent.parent / "gate"))

from fleets import verdict_data, write_verdict
from hand_made import cost_model, estimate, geometric

from lora_spec.config import load_tier
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.step_parts import STEP_PART_NAMES
from lora_spec.errors import ResultError
from lora_spec.gate.fleet_verdicts import read_fleet
from lora_spec.results import write_result
from lora_spec.stress.mixes.payload import read_gate_regret
from lora_spec.stress.mixes.report import Evidence, gate_regret

TIER = load_tier(Path(__file__).parents[2], "cpu")
ALPHAS = {"good": 0.9, "fair": 0.5, "poor": 0.05, "bad": 0.0}
RULES = {"num_adapters": [2, 3], "num_mixes": 2, "requests_per_adapter": 2}
MODES = ("checkpoint_only", "measured")
WEIGHTS = "0" * 64


def _measured(name, alpha):
    truth = estimate(geometric(alpha), below=0.02, above=0.02, mode="measured").to_dict()
    return {"adapter": name, "adapter_sha256": WEIGHTS, "estimate": truth, "base_estimate": truth}


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    """Weights alone know nothing and abstain, but for the last adapter, of which they are wrong."""
    folder = tmp_path_factory.mktemp("verdicts")
    for name, alpha in ALPHAS.items():
        write_verdict(folder, f"{name}.measured", verdict_data(name, alpha, mode="measured", below=0.02, above=0.02))
        guessed = {"alpha": 0.9} if name == "bad" else {"alpha": 0.5, "below": 0.45, "above": 1.0}
        write_verdict(folder, f"{name}.checkpoint_only", verdict_data(name, **guessed))
    table = cost_model()
    model = replace(table, context={**table.context, "parts": {"verify_per_token_ms": 3.5}})
    guesses = [_measured(name, 0.5) for name in ALPHAS]
    return Evidence(
        summaries=[_measured(name, alpha) for name, alpha in ALPHAS.items()],
        predictions=[{"context": {"mode": "checkpoint_only"}, "predictions": guesses}],
        verdicts=[read_fleet([folder], mode=mode) for mode in MODES],
        probes=[],
        cost_model=model,
    )


def _asked(**changes):
    gate = {**TIER.gate.to_dict(), "map_batch_sizes": [1, 16]}
    baselines = TIER.baselines.to_dict()
    baselines["mixes"] |= RULES | changes
    return {"gate": gate, "baselines": baselines, "traffic": TIER.traffic.to_dict(), "scored": ["good", "fair", "bad"]}


@pytest.fixture(scope="module")
def payload(evidence):
    return gate_regret(evidence, **_asked())


def _found(payload, basis, variant="plain"):
    (one,) = [
        item
        for item in payload["contenders"]
        if (item["policy"], item["basis"], item["variant"]) == ("verdicts", basis, variant)
    ]
    return one


def test_the_result_is_what_its_reader_takes(payload, tmp_path):
    told = {"kind": "gate_regret", "evidence": "measured", "tier": "cpu", "provenance": {}}
    write_result(tmp_path / "r.json", payload=payload, **told)
    assert read_gate_regret(tmp_path / "r.json", tier="cpu").payload == payload


def test_regrets_are_by_load_and_mix_and_their_summaries_follow(payload):
    assert len(payload["mixes"]) == 2 * 2 * 2
    for one in payload["contenders"]:
        regrets = np.array(one["regrets"])
        assert regrets.shape == (2, 8)
        assert one["overall"]["mean"] == pytest.approx(regrets.mean())
        assert [load["p95"] for load in one["by_load"]] == pytest.approx(np.quantile(regrets, 0.95, axis=1).tolist())
        assert one["is_mean_met"] == (regrets.mean() <= 0.03)


def test_measured_verdicts_are_near_the_oracle_and_what_nobody_knows_keeps_standing(payload):
    measured, weights, off = (
        _found(payload, *told) for told in (("measured",), ("checkpoint_only",), ("checkpoint_only", "abstained off"))
    )
    assert measured["overall"]["mean"] < 0.05 < weights["overall"]["mean"]
    assert off["by_load"][1]["mean"] < weights["by_load"][1]["mean"]
    standing = next(one for one in payload["contenders"] if one["policy"] == "always_standing_k")
    assert weights["regrets"] == standing["regrets"]


def test_the_less_mixed_depths_spare_the_more_a_verdict_on_one_adapter_alone_costs(payload):
    found = [item["mean"] for item in payload["by_saving"]]
    assert [item["saving"] for item in payload["by_saving"]] == [0, 0.5, 0.75, 1]
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(_found(payload, "measured")["overall"]["mean"])


def test_load_cells_are_of_all_measured_and_name_the_slow_ones(payload):
    cells = {(item["basis"], item["variant"]): item for item in payload["load_cells"]}
    assert cells["measured", "plain"]["num_below_off"] == cells["measured", "plain"]["num_below_standing"] == 0
    plain = cells["checkpoint_only", "plain"]
    assert plain["num_cells"] == len(ALPHAS) * 2
    slow = {(cell["adapter"], cell["batch_size"]) for cell in plain["below"] if cell["reference_depth"] == 0}
    assert {("bad", 1), ("bad", 16), ("poor", 16)} <= slow
    assert ("good", 1) not in slow
    assert plain["num_below_off"] == len(slow)


def test_merged_weights_and_the_tax_come_with_the_parts_of_a_step(evidence, payload):
    assert payload["context"]["off_in_engine_taxes"] is None
    assert [item["policy"] for item in payload["context"]["not_evaluated"]] == ["merged_own_pool"]
    named = {"step_ms": 50.0, "lora_ms": 50.0, "idle_draft_ms": 10.0}
    parts = np.array([named.get(name, 0.0) for name in STEP_PART_NAMES])
    known = StepCostModel(parts, parts[None], np.zeros(4), np.zeros((1, 4)), {})
    found = gate_regret(replace(evidence, step_cost=known), **_asked(num_mixes=1))
    assert found["context"]["off_in_engine_taxes"] == pytest.approx([0.1, 0.1])
    assert found["context"]["not_evaluated"] == []
    assert "merged_own_pool" in [one["policy"] for one in found["contenders"]]


def test_what_is_of_other_weights_or_was_not_decided_is_not_joined(evidence):
    first, *others = evidence.summaries
    with pytest.raises(ResultError, match=r"adapter 'good': the measured counts are of weights 1111"):
        gate_regret(replace(evidence, summaries=[{**first, "adapter_sha256": "1" * 64}, *others]), **_asked())
    with pytest.raises(ResultError, match=r"'new' was measured and has no verdict of mode checkpoint_only"):
        gate_regret(replace(evidence, summaries=[{**first, "adapter": "new"}, *others]), **_asked())
