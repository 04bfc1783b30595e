from contextlib import nullcontext

import pytest

from lora_spec.errors import MeasurementError
from lora_spec.measurement import measure_step_times


class _Readings:
    """Says what others used, one reading per cell, the last for ever."""

    def __init__(self):
        self.readings = [0.0]

    def __call__(self):
        return _Meter(self.readings)


class _Meter:
    def __init__(self, readings):
        self._readings = readings

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.other_cores = self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]


@pytest.fixture
def meter():
    return _Readings()


@pytest.fixture
def waits():
    """Collect the seconds that were to be slept."""
    return []


@pytest.fixture
def measure(make_engine, prompts, adapter, meter, waits):
    def run(engine=None, **changes):
        options = {
            "depths": [0, 2],
            "batch_sizes": [1, 4],
            "num_trials": 3,
            "prompts": prompts,
            "adapters": [adapter],
            "num_steps": 5,
            "seed": 0,
            "lock": nullcontext,
            "meter": meter,
            "max_wait_s": 60.0,
            "sleep": waits.append,
        } | changes
        return measure_step_times(engine or make_engine(step_ms=(5.0, 1.0, 0.5)), **options)

    return run


def test_cells_hold_the_known_clock(measure):
    cells = measure()
    assert [(c.num_speculative_tokens, c.batch_size, c.trial) for c in cells] == [
        (k, b, t) for k in (0, 2) for b in (1, 4) for t in range(3)
    ]
    for cell in cells:
        k, b = cell.num_speculative_tokens, cell.batch_size
        assert cell.step_ms == (5.0 + 1.0 * k + 0.5 * b * (k + 1),) * 5
        assert cell.lora_rank == 8


def test_trials_are_interleaved_in_an_order_drawn_from_the_seed(measure):
    def order(seed):
        seen = []
        measure(seed=seed, report=lambda cell: seen.append((cell.num_speculative_tokens, cell.batch_size, cell.trial)))
        return seen

    first = order(0)
    assert [trial for _, _, trial in first] == [0] * 4 + [1] * 4 + [2] * 4
    assert {pair[:2] for pair in first[:4]} == {(0, 1), (0, 4), (2, 1), (2, 4)}
    assert order(0) == first
    assert any(order(seed) != first for seed in (1, 2, 3))


def test_a_busy_moment_costs_a_wait_and_a_repeat_not_the_cell(measure, meter, waits):
    # The unused run, a busy batch, two busy polls, a quiet one, and then the batch again.
    meter.readings = [0.0, 0.9, 0.9, 0.7, 0.0]
    seen = []
    assert len(measure(report=seen.append)) == len(seen) == 12
    assert len(waits) == 3


def test_a_machine_that_stays_busy_invalidates_the_run_after_the_allowed_wait(measure, meter, waits):
    meter.readings = [0.0, 0.9]
    with pytest.raises(MeasurementError, match=r"other processes used 0.90 cores.* after 60 s of waiting"):
        measure()
    assert sum(waits) == 60


def test_too_few_trials_or_no_adapter_are_refused(measure):
    with pytest.raises(MeasurementError, match="at least 3 trials"):
        measure(num_trials=2)
    with pytest.raises(MeasurementError, match="one adapter"):
        measure(adapters=[])


def test_the_engine_is_left_at_its_maximum_depth(measure, make_engine, meter):
    engine = make_engine()
    meter.readings = [0.9]
    with pytest.raises(MeasurementError):
        measure(engine)
    assert engine._depth == 4


def test_depths_of_a_batch_are_timed_in_one_run_of_it(measure, make_engine):
    engine, runs = make_engine(), []
    timed = engine.time_decode_steps
    engine.time_decode_steps = lambda requests, **how: (
        runs.append((len(requests), how["depths"])),
        timed(requests, **how),
    )[1]
    measure(engine)
    assert len(runs) == 1 + 2 * 3  # one unused run, then every size in every trial
    assert all(sorted(depths) == [0, 2] for _, depths in runs)
