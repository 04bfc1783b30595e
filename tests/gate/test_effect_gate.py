"""The pre-registered rule: each answer from numbers that call for it, and the whole from a pool of known effect."""

from dataclasses import replace

import pytest

from lora_spec.cost_model import fit_cost_model
from lora_spec.engines import AdapterRef
from lora_spec.engines.fake import FakeEngine, FakeReplayer
from lora_spec.errors import ConfigError, MeasurementError
from lora_spec.gate.effect_gate import EffectRule, answer_of, judge_effect
from lora_spec.gate.effect_report import sentence_of
from lora_spec.measurement import Prompt
from lora_spec.measurement.collect import CollectSettings, LoraCollector, PromptSet
from lora_spec.records import AcceptanceRecord, Interval
from lora_spec.step_time_cell import StepTimeCell

RULE = EffectRule(
    stratum="aggressive",
    min_accepted_loss=0.1,
    min_goodput_loss=0.03,
    batch_size=8,
    num_speculative_tokens=3,
    candidate_depths=(0, 1, 2, 3, 4),
    min_drafts=16,
    level=0.9,
    num_bootstrap_draws=300,
    seed=0,
)
ACCEPTANCE = {None: 0.7, "loud": 0.1, "shrill": 0.2, "same": 0.7, "zero": 0.7}


def _interval(lower, estimate, upper):
    return Interval(estimate, lower, upper, 0.9)


@pytest.mark.parametrize(
    ("accepted", "goodput", "p_holm", "answer"),
    [
        ((0.2, 0.3, 0.4), (0.05, 0.1, 0.2), 0.01, "GO"),
        ((0.2, 0.3, 0.4), (0.05, 0.1, 0.2), 0.2, "INVESTIGATE"),  # not significant after Holm
        ((-0.1, 0.3, 0.7), (0.05, 0.1, 0.2), 0.01, "INVESTIGATE"),  # the interval holds zero
        ((0.2, 0.3, 0.4), (0.0, 0.02, 0.04), 0.01, "INVESTIGATE"),  # acceptance falls, goodput hardly
        ((0.02, 0.05, 0.09), (0.0, 0.01, 0.02), 0.01, "STOP"),
        ((0.02, 0.05, 0.09), (0.0, 0.01, 0.04), 0.01, "INVESTIGATE"),  # goodput might still be lost
        ((0.02, 0.05, 0.12), (0.0, 0.01, 0.02), 0.01, "INVESTIGATE"),
        ((0.05, 0.1, 0.15), (0.01, 0.031, 0.05), 0.1, "GO"),  # both at their bars
    ],
)
def test_answers(accepted, goodput, p_holm, answer):
    assert answer_of(_interval(*accepted), _interval(*goodput), p_holm=p_holm, rule=RULE) == answer


def _record(name):
    prompts = tuple(Prompt(f"{name}-{i}", (ACCEPTANCE_SEED[name], *range(i, i + 9))) for i in range(48))
    collector = LoraCollector(
        FakeEngine(ACCEPTANCE, num_speculative_tokens=4),
        {"final": FakeReplayer(ACCEPTANCE)},
        CollectSettings(3, 4, 16, 0),
    )
    adapter = AdapterRef(name, "folder", 8, has_update=name != "zero")
    return AcceptanceRecord(name, "0" * 64, collector.collect(adapter, [PromptSet("own", f"sha-{name}", prompts, 80)]))


ACCEPTANCE_SEED = {name: 1000 + index for index, name in enumerate(filter(None, ACCEPTANCE))}
STRATA = {"loud": "aggressive", "shrill": "aggressive", "same": "benign", "zero": "control"}


@pytest.fixture(scope="module")
def records():
    return [_record(name) for name in STRATA]


def _cost_model(per_draft_ms: float):
    """Return T_K = 10 + per_draft_ms * K, without noise."""
    cells = [
        StepTimeCell(k, b, trial, 8, 64, (10 + per_draft_ms * k,) * 5, 0.0, 0.0)
        for k in range(5)
        for b in (1, 8)
        for trial in range(3)
    ]
    return fit_cost_model(cells, num_draws=50, seed=0)


def test_a_pool_of_known_effect_is_go(records):
    judged = judge_effect(records, STRATA, _cost_model(3.0), RULE)
    assert judged["answer"] == "GO"
    exact = {a: sum(a**k for k in (1, 2, 3)) for a in (0.7, 0.1, 0.2)}
    expected = 1 - (exact[0.1] + exact[0.2]) / (2 * exact[0.7])
    assert judged["accepted_loss"]["estimate"] == pytest.approx(expected, abs=0.06)
    # At K=3 a step takes 19 ms instead of 10; off is best for both.
    lengths = [1 + exact[0.1], 1 + exact[0.2]]
    assert judged["goodput_loss"]["estimate"] == pytest.approx(1 - sum(lengths) * 10 / 19 / 2, abs=0.03)
    by_name = {item["adapter"]: item for item in judged["adapters"]}
    assert by_name["loud"]["p_holm"] < 0.05 < by_name["same"]["p_holm"]
    assert by_name["zero"]["p_holm"] == 1
    assert by_name["zero"]["acceptance_length_difference"]["estimate"] == 0
    assert by_name["same"]["min_detectable"] > 0
    assert "aggressive adapters lose" in sentence_of(judged)


def test_drafts_that_cost_nothing_make_the_effect_a_matter_to_investigate(records):
    judged = judge_effect(records, STRATA, _cost_model(0.0), RULE)
    assert judged["goodput_loss"]["estimate"] < 0.03
    assert judged["answer"] == "INVESTIGATE"


def test_a_pool_without_effect_is_stop(records):
    strata = {"same": "aggressive", "zero": "aggressive"}
    wide = replace(RULE, min_accepted_loss=0.2, min_goodput_loss=0.2)
    judged = judge_effect([r for r in records if r.adapter in strata], strata, _cost_model(0.5), wide)
    assert judged["answer"] == "STOP"


def test_a_pool_without_the_stratum_is_refused(records):
    with pytest.raises(MeasurementError, match="no adapter of stratum 'aggressive'"):
        judge_effect(records[2:], {"same": "benign", "zero": "control"}, _cost_model(1.0), RULE)


def test_a_stratum_is_not_judged_by_a_part_of_it(records):
    for measured in (records[2:], records[1:]):
        with pytest.raises(MeasurementError, match=r"adapter 'loud' of stratum 'aggressive'.* has no record"):
            judge_effect(measured, STRATA, _cost_model(1.0), RULE)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_speculative_tokens": 0},
        {"num_speculative_tokens": 5},
        {"candidate_depths": ()},
        {"candidate_depths": (-1, 3)},
        {"min_accepted_loss": -0.1},
        {"min_goodput_loss": 1.1},
        {"batch_size": 0},
        {"min_drafts": 0},
        {"seed": -1},
        {"level": 0.0},
        {"level": 1.0},
        {"num_bootstrap_draws": 0},
        {"num_bootstrap_draws": 18},  # least p-value 2/19 > 0.1
        {"level": 0.999},
    ],
)
def test_a_rule_that_nothing_could_meet_or_compute_is_refused(changes):
    with pytest.raises(ConfigError, match="effect gate: "):
        replace(RULE, **changes)
    assert replace(RULE, num_bootstrap_draws=19).num_bootstrap_draws == 19
