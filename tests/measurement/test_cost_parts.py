from contextlib import nullcontext

import pytest
from cost_parts_settings import small_settings

from lora_spec.cost_model.step_fitting import fit_step_costs
from lora_spec.engines import AdapterRef
from lora_spec.engines.fake import FakeEngine
from lora_spec.errors import MeasurementError
from lora_spec.measurement import Prompt
from lora_spec.measurement.cost_parts import measure_cost_parts
from lora_spec.measurement.cost_runs import Served

CLOCK = (50.0, 4.0, 2.0)
PREFILL_MS, LOAD_MS = 0.5, (3.0, 1.0)
ADAPTERS = [AdapterRef("one", "one", 8), AdapterRef("two", "two", 8)]


class _Quiet:
    other_cores = 0.0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def _engine(depth, step_ms=CLOCK):
    return FakeEngine(
        {},
        num_speculative_tokens=depth,
        step_ms=step_ms,
        prefill_token_ms=PREFILL_MS,
        load_ms_per_rank=LOAD_MS,
        max_loras=len(ADAPTERS),
    )


def _prompts(num_prompts, num_tokens):
    return [Prompt(f"p{i}", tuple(range(3, 3 + num_tokens))) for i in range(num_prompts)]


@pytest.fixture
def measure():
    def run(settings=None, **changes):
        settings = settings or small_settings()
        served = Served(
            prompts=_prompts,
            adapters=changes.pop("adapters", ADAPTERS),
            load_copies={rank: AdapterRef(f"rank-{rank}", "copies", rank) for rank in (2, 4, 8)},
            num_steps=settings["num_steps"],
            num_warmup_steps=settings["num_warmup_steps"],
        )
        engines = {"served": _engine(2), "no_drafter": _engine(0), "no_lora": _engine(2)}
        options = {"report": lambda line: None, "lock": nullcontext, "meter": _Quiet} | changes
        return measure_cost_parts(engines, settings, served=served, **options)

    return run


def test_every_cell_holds_the_known_clock(measure):
    fixed, per_pass, per_token = CLOCK
    for cell in measure().cells:
        expected = fixed + per_pass * max(cell.depths, default=0) + per_token * sum(k + 1 for k in cell.depths)
        # No load of an adapter is in it, though every run may find its adapters pushed out of their slots.
        assert set(cell.step_ms) == {expected + PREFILL_MS * cell.num_prefill_tokens}
        assert cell.lora_rank == (0 if cell.arm == "no_lora" else 8)


def test_all_cells_of_the_config_are_timed_in_every_trial(measure):
    settings, found = small_settings(), measure()
    for use in ("fit", "validation"):
        cells = [cell for cell in found.cells if cell.use == use]
        num_sizes = len(settings[use]["decode"][0]["batch_sizes"])
        num_prompts = len(settings[use]["prefill"]["num_prompt_tokens"])
        # Three depths, off without drafter, two without LoRA; one mix; prompts alone in three engines, beside at two K.
        assert len({cell.make_up for cell in cells}) == num_sizes * (3 + 1 + 2) + 1 + num_prompts * (3 + 2)
        assert len(cells) == 3 * len({cell.make_up for cell in cells})


def test_a_mix_is_dealt_to_the_adapters_in_turn(measure):
    mixed = [cell for cell in measure().cells if len(set(cell.depths)) > 1]
    assert {cell.depths for cell in mixed if cell.use == "fit"} == {(0, 2, 0)}
    assert {cell.depths for cell in mixed if cell.use == "validation"} == {(1, 2, 1)}


def test_a_mix_of_more_depths_than_adapters_is_refused(measure):
    with pytest.raises(MeasurementError, match="only 1 are served"):
        measure(adapters=ADAPTERS[:1])


def test_loads_are_the_known_ones_from_disk_from_memory_and_from_the_slot(measure):
    loads = measure().loads
    assert len(loads) == 3 * 3
    for load in loads:
        assert load.first_use_ms - load.loaded_ms == pytest.approx(LOAD_MS[0] * load.lora_rank)
        assert load.from_memory_ms - load.loaded_ms == pytest.approx(LOAD_MS[1] * load.lora_rank)


def test_trials_are_interleaved_in_an_order_drawn_from_the_seed(measure):
    def order(seed):
        said = []
        measure(small_settings() | {"seed": seed}, report=said.append)
        return said

    first = order(0)
    num_runs = len(first) // 3
    assert [line.rpartition("trial ")[2][0] for line in first] == ["0"] * num_runs + ["1"] * num_runs + ["2"] * num_runs
    assert order(0) == first
    assert order(1) != first


def test_a_busy_run_is_discarded_and_repeated_with_an_adapter_not_seen_before(measure):
    readings = [0.9] * 40  # busy, then waits until quiet, then the run again; every poll takes one reading

    class Meter(_Quiet):
        def __exit__(self, *error):
            self.other_cores = readings.pop() if readings else 0.0

    waits = []
    found = measure(small_settings() | {"max_other_cores": 0.5, "max_wait_s": 1e6}, meter=Meter, sleep=waits.append)
    assert len(waits) > 0
    assert len(found.cells) == len(measure().cells)
    assert all(load.first_use_ms > load.from_memory_ms > load.loaded_ms for load in found.loads)


def test_a_machine_that_stays_busy_ends_the_campaign(measure):
    class Busy(_Quiet):
        other_cores = 1.5

    with pytest.raises(MeasurementError, match=r"other processes used 1\.50 cores"):
        measure(small_settings() | {"max_other_cores": 0.5, "max_wait_s": 0.0}, meter=Busy, sleep=lambda s: None)


@pytest.mark.parametrize("change", [{"num_trials": 2}, {"adapters": []}])
def test_too_few_trials_or_no_adapter_are_refused(measure, change):
    adapters = change.pop("adapters", ADAPTERS)
    with pytest.raises(MeasurementError, match="3 trials and one adapter"):
        measure(small_settings() | change, adapters=adapters)


def test_the_shipped_settings_tell_all_parts_apart():
    from pathlib import Path

    from lora_spec.config import load_tier

    root = Path(__file__).parents[2]
    for name in ("mini", "cpu", "paper"):
        settings = load_tier(root, name).phase1_measurement.cost_parts.to_dict()
        depth = 4
        served = Served(
            prompts=_prompts,
            adapters=[AdapterRef(f"a{i}", "a", 8) for i in range(4)],
            load_copies={rank: AdapterRef(f"rank-{rank}", "copies", rank) for rank in (2, 4, 8, 16, 32, 64)},
            num_steps=2,
            num_warmup_steps=1,
        )
        engines = {"served": _engine(depth), "no_drafter": _engine(0), "no_lora": _engine(depth)}
        found = measure_cost_parts(
            engines, settings, served=served, report=lambda line: None, lock=nullcontext, meter=_Quiet
        )
        assert fit_step_costs(found.cells, found.loads, num_draws=1, seed=0).parts_ms[0] > 0
