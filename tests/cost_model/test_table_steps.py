"""Steps of mixed depths from the table: what all alike take, and what is drawn from a mix, in closed form."""

import itertools

import numpy as np
import pytest

from lora_spec.cost_model import CostModel
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.step_parts import STEP_PART_NAMES
from lora_spec.cost_model.table_steps import TableSteps, spared_token_ms
from lora_spec.errors import ConfigError, ResultError

STEPS = TableSteps(3, np.array([50.0, 70.0, 85.0]), 2.0)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_batch_that_all_drafts_alike_takes_what_the_table_says(depth):
    assert STEPS.step_ms([depth] * 3) == STEPS.alike_ms[depth]


def test_the_deepest_sets_the_passes_and_the_others_spare_their_verification():
    assert STEPS.step_ms([2, 0, 1]) == 85 - 2 * (2 + 1)
    assert STEPS.step_ms([0, 1, 2]) == STEPS.step_ms([2, 0, 1])


def test_the_mean_over_a_mix_is_that_of_all_batches_weighed_one_by_one():
    places, depths = np.array([0.5, 0.3, 0.2]), np.array([0, 2, 1])
    batches = itertools.product(range(3), repeat=3)
    by_hand = sum(np.prod(places[list(b)]) * STEPS.step_ms(depths[list(b)].tolist()) for b in batches)
    assert STEPS.mean_step_ms(places, depths) == pytest.approx(by_hand)


def test_many_assignments_at_once_are_each_as_alone():
    rng = np.random.default_rng(0)
    places, depths = rng.dirichlet(np.ones(4), size=5), rng.integers(3, size=(5, 4))
    alone = [STEPS.mean_step_ms(p, d) for p, d in zip(places, depths, strict=True)]
    assert STEPS.mean_step_ms(places, depths) == pytest.approx(alone)


def test_a_tax_falls_on_steps_without_drafts_alone():
    taxed = STEPS.taxed(0.1)
    assert taxed.step_ms([0, 0, 0]) == pytest.approx(55)
    assert taxed.step_ms([1, 0, 0]) == STEPS.step_ms([1, 0, 0])


def _model(**context):
    median = np.array([[50.0, 60.0], [70.0, 90.0]])
    draws = np.stack([median, 2 * median])
    return CostModel((0, 1), (1, 4), median, draws, context)


def test_estimates_and_draws_come_from_the_cost_model():
    model = _model(parts={"verify_per_token_ms": 3.0})
    assert TableSteps.of(model, 4, max_depth=1).alike_ms.tolist() == [60, 90]
    assert TableSteps.of(model, 4, max_depth=1, draw=1).alike_ms.tolist() == [120, 180]
    assert TableSteps.of(model, 4, max_depth=1).token_ms == 3


def test_a_model_without_parts_is_refused_and_so_is_a_saving_beyond_the_step():
    with pytest.raises(ResultError, match="parts of a step; fit it again"):
        TableSteps.of(_model(), 4, max_depth=1)
    with pytest.raises(ResultError, match="batch size 8: a step of mixed depths would take"):
        TableSteps(8, np.array([50.0, 60.0]), 9.0)


@pytest.mark.parametrize(("depths", "prefill"), [([0, 0], 0), ([0, 0, 3], 0), ([0, 0, -1], 0), ([0, 0, 0], 5)], ids=str)
def test_a_step_that_the_table_does_not_hold_is_refused(depths, prefill):
    with pytest.raises(ConfigError, match=r"it holds decode steps of 3 requests up to K=2"):
        STEPS.step_ms(depths, num_prefill_tokens=prefill)
    with pytest.raises(ConfigError, match="no adapter loads"):
        STEPS.adapter_load_ms(8)


def test_parts_say_what_one_token_less_spares_whatever_else_a_step_takes():
    parts = np.arange(1.0, 1 + len(STEP_PART_NAMES))
    model = StepCostModel(parts, parts[None], np.zeros(4), np.zeros((1, 4)), {})
    named = dict(zip(STEP_PART_NAMES, parts, strict=True))
    assert spared_token_ms(model) == pytest.approx(named["token_ms"] + named["lora_token_ms"])
    assert spared_token_ms(model.without_lora()) == pytest.approx(named["token_ms"])
