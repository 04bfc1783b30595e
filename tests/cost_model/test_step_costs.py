import dataclasses
import json

import numpy as np
import pytest
from known_parts import LOADS, PRICES, made_cells, made_loads, price_ms

from lora_spec.cost_model.fitting import fit_cost_model
from lora_spec.cost_model.step_cost import StepCost
from lora_spec.cost_model.step_fitting import fit_step_costs
from lora_spec.cost_model.step_model import LOAD_PART_NAMES, StepCostModel
from lora_spec.cost_model.step_parts import STEP_PART_NAMES
from lora_spec.errors import ConfigError, MeasurementError, ResultError
from lora_spec.step_time_cell import StepTimeCell


def _fit(cells=None, loads=None, num_draws=5):
    return fit_step_costs(cells or made_cells(), loads or made_loads(), num_draws=num_draws, seed=0)


@pytest.fixture(scope="module")
def exact() -> StepCostModel:
    return _fit()


def test_every_part_is_recovered_from_cells_that_follow_the_prices(exact):
    assert dict(zip(STEP_PART_NAMES, exact.parts_ms, strict=True)) == pytest.approx(PRICES, rel=1e-6)
    assert dict(zip(LOAD_PART_NAMES, exact.loads_ms, strict=True)) == pytest.approx(LOADS, rel=1e-6)
    assert exact.part_draws_ms == pytest.approx(np.tile(exact.parts_ms, (5, 1)), rel=1e-5)


@pytest.mark.parametrize(("depths", "prefill", "context"), [((2,), 0, 50), ((0, 0, 4), 7, 900), ((), 300, 0)])
def test_a_step_never_seen_costs_what_its_parts_cost(exact, depths, prefill, context):
    asked = {"num_prefill_tokens": prefill, "num_context_tokens": context}
    assert exact.step_ms(depths, **asked) == pytest.approx(price_ms("served", depths, prefill, context))
    assert exact.without_lora().step_ms(depths, **asked) == pytest.approx(price_ms("no_lora", depths, prefill, context))
    interval = exact.step_interval(depths, **asked)
    assert interval.lower == pytest.approx(interval.estimate) == pytest.approx(interval.upper)


def test_the_order_of_requests_does_not_matter_and_the_deepest_sets_the_passes(exact):
    asked = {"num_prefill_tokens": 0, "num_context_tokens": 100}
    assert exact.step_ms((0, 3, 1), **asked) == exact.step_ms((3, 1, 0), **asked)
    # Two requests more at depth 0 beside one at depth 3 cost their token and their share of three passes.
    added = exact.step_ms((3, 0), **asked) - exact.step_ms((3,), **asked)
    assert added == pytest.approx(PRICES["token_ms"] + PRICES["lora_token_ms"] + 3 * PRICES["draft_token_ms"])


def test_the_tax_is_what_an_engine_without_drafter_does_not_pay(exact):
    asked = {"num_prefill_tokens": 0, "num_context_tokens": 100}
    tax = exact.step_ms((0,) * 8, **asked) - exact.without_drafter().step_ms((0,) * 8, **asked)
    assert tax == pytest.approx(PRICES["idle_draft_ms"] + 8 * PRICES["idle_draft_token_ms"])


def test_loads_lie_on_a_line_over_rank(exact):
    assert exact.adapter_load_ms(4) == pytest.approx(20 + 1.5 * 4)
    assert exact.adapter_place_ms(64) == pytest.approx(4 + 0.5 * 64)
    with pytest.raises(ConfigError, match="rank 0"):
        exact.adapter_load_ms(0)


def test_a_lie_in_a_validation_cell_does_not_move_the_fit(exact):
    fitted = [cell for cell in made_cells() if cell.use == "fit"]
    lied = [dataclasses.replace(cell, step_ms=(9000.0,)) for cell in made_cells() if cell.use == "validation"]
    loads = [
        dataclasses.replace(load, first_use_ms=5000.0) if load.use == "validation" else load for load in made_loads()
    ]
    assert len(lied) > 30
    assert _fit([*lied, *fitted], loads).to_dict() == exact.to_dict()


def test_a_slow_trial_widens_the_intervals_and_leaves_the_estimate(exact):
    found = _fit(made_cells(drift=(1.0, 1.0, 1.5)), num_draws=200)
    assert found.parts_ms == pytest.approx(exact.parts_ms, rel=1e-6)
    interval = found.step_interval((0,), num_prefill_tokens=0, num_context_tokens=10)
    assert interval.upper > 1.4 * interval.estimate
    assert interval.lower == pytest.approx(interval.estimate)


def test_twice_as_slow_a_machine_has_parts_twice_as_large(exact):
    found = _fit([dataclasses.replace(c, step_ms=tuple(2 * step for step in c.step_ms)) for c in made_cells()])
    assert found.parts_ms == pytest.approx(2 * exact.parts_ms)


def test_the_order_of_cells_does_not_matter(exact):
    found = _fit(made_cells()[::-1])
    assert found.parts_ms == pytest.approx(exact.parts_ms)


def test_noise_stays_within_the_intervals_for_steps_of_all_kinds():
    found = _fit(made_cells(noise=0.03, trials=4, seed=1), made_loads(4), num_draws=200)
    for arm, depths, prefill, context in (
        ("served", (2,) * 6, 0, 600),
        ("served", (0, 3, 3), 64, 300),
        ("no_drafter", (0,) * 8, 0, 256),
    ):
        model = found if arm == "served" else found.without_drafter()
        interval = model.step_interval(depths, num_prefill_tokens=prefill, num_context_tokens=context, level=0.99)
        truth = price_ms(arm, depths, prefill, context)
        assert interval.estimate == pytest.approx(truth, rel=0.03)
        assert interval.lower * 0.99 < truth < interval.upper * 1.01


def test_uniform_batches_agree_with_the_gates_table(exact):
    # The table's engine leaves the drafter out at depth 0: its T_0 is that of an engine without a drafter.
    depths, batch_sizes, context = (0, 1, 2, 4), (1, 2, 8), 60
    cells = [
        StepTimeCell(
            k,
            b,
            trial,
            8,
            context,
            (price_ms("served" if k else "no_drafter", (k,) * b, 0, context * b),) * 3,
            0.1,
            0.1,
        )
        for k in depths
        for b in batch_sizes
        for trial in range(3)
    ]
    table = fit_cost_model(cells, num_draws=10, seed=0)
    for k in depths:
        for b in batch_sizes:
            engine = exact if k else exact.without_drafter()
            found = engine.step_ms((k,) * b, num_prefill_tokens=0, num_context_tokens=context * b)
            assert found == pytest.approx(table.step_time_ms(k, b).interval.estimate)


def test_it_is_what_a_simulator_asks_for(exact):
    def ask(cost: StepCost) -> float:
        return cost.step_ms([1], num_prefill_tokens=0, num_context_tokens=8) + cost.adapter_load_ms(8)

    assert ask(exact) > 0


def test_it_survives_json(exact):
    read = StepCostModel.from_dict(json.loads(json.dumps(exact.to_dict())))
    assert read.to_dict() == exact.to_dict()
    asked = {"num_prefill_tokens": 5, "num_context_tokens": 80}
    assert read.step_ms((1, 2), **asked) == exact.step_ms((1, 2), **asked)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": "2"}, "no step costs of schema"),
        ({"part_names": ["step_ms"]}, "other parts"),
        ({"parts_ms": [1.0]}, "shape"),
        ({"parts_ms": [-1.0] * 14}, "negative or endless"),
        ({"parts_ms": [float("nan")] * 14}, "negative or endless"),
        ({"loads_ms": "fast"}, "damaged"),
        ({"has_lora": 1}, "damaged"),
        ({"context": None}, "damaged"),
    ],
)
def test_damaged_files_are_refused(exact, change, message):
    with pytest.raises(ResultError, match=message):
        StepCostModel.from_dict(exact.to_dict() | change)


@pytest.mark.parametrize(("depths", "prefill", "context"), [((), 0, 0), ((-1,), 0, 0), ((1,), -1, 0), ((1,), 0, -5)])
def test_impossible_steps_are_refused(exact, depths, prefill, context):
    with pytest.raises(ConfigError, match="no step has"):
        exact.step_ms(depths, num_prefill_tokens=prefill, num_context_tokens=context)


def test_an_engine_without_drafter_cannot_draft(exact):
    with pytest.raises(ConfigError, match="without a drafter"):
        exact.without_drafter().step_ms((0, 1), num_prefill_tokens=0, num_context_tokens=9)


def test_parts_that_the_cells_cannot_tell_apart_are_named():
    no_prompts = [cell for cell in made_cells() if not (cell.arm == "no_lora" and cell.num_prefill_tokens)]
    with pytest.raises(MeasurementError, match=r"cannot tell apart .*prefill_token_ms"):
        _fit(no_prompts)


@pytest.mark.parametrize(
    ("cells", "loads", "message"),
    [
        (made_cells()[1:], made_loads(), "1 cells without some trial"),
        (made_cells(trials=2), made_loads(2), "2 trials"),
        (made_cells() + made_cells()[:1], made_loads(), "stands twice"),
        (made_cells(), made_loads()[:3], "two ranks"),
        (made_cells(), made_loads(2), "in every trial"),
    ],
)
def test_records_that_are_not_whole_are_refused(cells, loads, message):
    with pytest.raises(MeasurementError, match=message):
        _fit(cells, loads)
