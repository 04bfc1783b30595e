"""Which adapters are confirmed is read from predictions alone; the report joins both pairs by name."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.errors import ConfigError, EvidenceError, ResultError
from lora_spec.evaluation.extremes import Chosen
from lora_spec.gate.confirming import PLAN_KIND, choose_confirmed, read_chosen, transfer_of
from lora_spec.measurement.summary import SummarySettings
from lora_spec.records import AcceptanceEstimate, Interval
from lora_spec.results import write_result

ROOT = Path(__file__).parents[2]
CPU = load_tier(ROOT, "cpu")
SETTINGS = SummarySettings(num_speculative_tokens=3, min_drafts=1, level=0.9, num_bootstrap_draws=200, seed=0)


def _estimate(first_rate, mode="checkpoint_only"):
    rates = tuple(first_rate / 2**k for k in range(4))
    lengths = tuple(Interval(e := 1 + sum(rates[: k + 1]), e, e, 0.9) for k in range(4))
    return AcceptanceEstimate(mode, rates, rates, rates, 0.9, lengths).to_dict()


def _write_predictions(path, rates, *, tier="cpu", evidence="measured"):
    context = {
        "target_model": "t", "draft_model": "d", "mode": "checkpoint_only", "predictor": "elastic_net",
        "prompt_set": "own", "training_sha256": "0" * 64,
    }  # fmt: skip
    predictions = [
        {
            "adapter": name, "adapter_sha256": "0" * 64, "left_out": CPU.adapter_pool.find(name).domain,
            "num_training_adapters": 9,
            "predictor_sha256": "0" * 64, "estimate": _estimate(rate),
        }
        for name, rate in rates.items()
    ]  # fmt: skip
    payload = {"context": context, "predictions": predictions, "excluded": []}
    write_result(path, kind="predictions", evidence=evidence, tier=tier, provenance={}, payload=payload)
    return path


RATES = {name: 0.1 + 0.8 * i / len(CPU.adapter_pool.names) for i, name in enumerate(CPU.adapter_pool.names)}


def test_the_ends_of_the_predicted_order_are_confirmed_and_controls_are_not(tmp_path):
    chosen = choose_confirmed(_write_predictions(tmp_path / "p.json", RATES), CPU)
    remade = [name for name in CPU.adapter_pool.names if name in CPU.adapter_pool.remade]
    assert [item.adapter for item in chosen if item.group == "worst"] == remade[:4]
    assert [item.adapter for item in chosen if item.group == "best"] == remade[-4:]
    assert len(chosen) == 12
    for item in chosen:
        row = CPU.adapter_pool.find(item.adapter)
        assert (row.stratum == "control", row.domain) == (False, item.source)
        assert item.predicted == pytest.approx(1 + RATES[item.adapter] * 1.75)


def test_predictions_of_another_tier_or_made_up_ones_choose_nothing(tmp_path):
    with pytest.raises(ResultError, match="made for tier 'mini'"):
        choose_confirmed(_write_predictions(tmp_path / "p.json", RATES, tier="mini"), CPU)
    with pytest.raises(EvidenceError):
        choose_confirmed(_write_predictions(tmp_path / "p.json", RATES, evidence="synthetic-smoke"), CPU)


def test_a_tier_without_a_second_pair_says_so(tmp_path):
    with pytest.raises(ConfigError, match="confirm_pool is null"):
        choose_confirmed(_write_predictions(tmp_path / "p.json", RATES), load_tier(ROOT, "mini"))


def test_a_plan_gives_back_what_was_chosen(tmp_path):
    chosen = (Chosen("a", "sql", "worst", 1.2), Chosen("b", "chat", "best", 2.5))
    payload = {"chosen": [asdict(item) for item in chosen]}
    path = tmp_path / "plan.json"
    write_result(path, kind=PLAN_KIND, evidence="contract-only", tier="cpu", provenance={}, payload=payload)
    assert read_chosen(path, tier="cpu") == chosen
    with pytest.raises(ResultError, match="asked for tier 'mini'"):
        read_chosen(path, tier="mini")
    data = json.loads(path.read_text())
    data["payload"]["chosen"][0]["group"] = "middling"
    path.write_text(json.dumps(data))
    with pytest.raises(ResultError, match="middling"):
        read_chosen(path, tier="cpu")


CHOSEN = tuple(
    Chosen(f"a{i}", f"s{i % 3}", group, 1 + i / 10)
    for i, group in enumerate(["worst"] * 2 + ["random"] * 2 + ["best"] * 2)
)


def _measured(name, rate, mismatch):
    interval = None if mismatch is None else {"estimate": mismatch, "lower": mismatch, "upper": mismatch, "level": 0.9}
    effects = [{"prompt_set": "common", "mismatch": None}, {"prompt_set": "own", "mismatch": interval}]
    return {"adapter": name, "estimate": _estimate(rate, "measured"), "effects": effects}


def _report(second_rates, second_mismatch):
    first = [_measured(f"a{i}", 0.2 + i / 10, 0.6 - i / 10) for i in range(6)] + [_measured("other", 0.9, 0.0)]
    second = [_measured(f"a{i}", second_rates[i], second_mismatch[i]) for i in range(6)]
    return transfer_of(CHOSEN, first, second, SETTINGS)


def test_lengths_and_kept_shares_are_compared_apart():
    """On the second pair the lengths keep the order and the kept shares turn it round."""
    report = _report([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert report["acceptance_length"]["first_against_second"]["estimate"] == pytest.approx(1)
    assert report["acceptance_length"]["are_all_in_order"] is True
    assert report["kept_share"]["first_against_second"]["estimate"] == pytest.approx(-1)
    assert report["kept_share"]["are_all_in_order"] is False
    row = report["adapters"][0]
    assert (row["adapter"], row["group"], row["predicted"]) == ("a0", "worst", 1.0)
    assert row["second_acceptance_length"] == pytest.approx(1 + 0.1 * 1.75)
    assert (row["first_kept_share"], row["second_kept_share"]) == (pytest.approx(0.4), pytest.approx(1.0))
    json.dumps(report, allow_nan=False)


def test_an_adapter_whose_base_accepts_too_little_is_left_out_of_the_shares_alone():
    report = _report([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.5, 0.4, None, 0.2, 0.1, 0.0])
    assert report["acceptance_length"]["num_adapters"] == 6
    assert report["kept_share"]["num_adapters"] == 5
    assert report["adapters"][2]["second_kept_share"] is None


def test_a_prediction_that_left_out_another_domain_chooses_nothing(tmp_path):
    path = _write_predictions(tmp_path / "p.json", RATES)
    data = json.loads(path.read_text())
    for item in data["payload"]["predictions"]:
        item["left_out"] = "elsewhere"
    path.write_text(json.dumps(data))
    with pytest.raises(ResultError, match="made without 'elsewhere'"):
        choose_confirmed(path, CPU)


@pytest.mark.parametrize(
    ("names", "message"),
    [([], "chose no adapter"), (["a", "a"], "stands twice"), (["../../x"], "chosen"), ([""], "chosen")],
)
def test_a_plan_names_adapters_and_each_once(tmp_path, names, message):
    path, chosen = tmp_path / "plan.json", [asdict(Chosen(name, "s", "best", 1.5)) for name in names]
    common = {"kind": PLAN_KIND, "evidence": "contract-only", "tier": "cpu", "provenance": {}}
    write_result(path, payload={"chosen": chosen}, **common)
    with pytest.raises(ResultError, match=message):
        read_chosen(path, tier="cpu")
