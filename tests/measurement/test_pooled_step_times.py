"""Runs of one timing plan together."""

import copy
import json
from pathlib import Path

import pytest

from lora_spec.errors import MeasurementError
from lora_spec.measurement.payload import read_step_times
from lora_spec.measurement.pooled_step_times import pool_step_times
from lora_spec.results import write_result

MINI = Path(__file__).parents[2] / "reference" / "mini" / "step_times.json"


@pytest.fixture
def run():
    return json.loads(MINI.read_text())


def _written(folder, name, run, *, day, **runtime):
    changed = copy.deepcopy(run)
    changed["provenance"] |= {"timestamp": f"2026-11-{day}T00:00:00+00:00"}
    changed["provenance"]["runtime"] |= runtime
    path = folder / f"{name}.json"
    path.write_text(json.dumps(changed))
    return path


def test_all_cells_are_kept_and_no_two_trials_of_a_cell_share_a_number(tmp_path, run):
    paths = [_written(tmp_path, name, run, day=day) for name, day in (("a", 1), ("b", 2), ("c", 3))]
    payload, provenance = pool_step_times(paths, tier="mini")
    write_result(
        tmp_path / "all.json",
        kind="step_time_cells",
        evidence="measured",
        tier="mini",
        payload=payload,
        provenance=provenance,
    )
    once, found = read_step_times(MINI, tier="mini"), read_step_times(tmp_path / "all.json", tier="mini")
    assert sorted(cell.step_ms for cell in found.cells) == sorted(3 * [cell.step_ms for cell in once.cells])
    keys = {(cell.num_speculative_tokens, cell.batch_size, cell.trial) for cell in found.cells}
    assert len(keys) == len(found.cells) == 3 * len(once.cells)
    assert found.engine == once.engine
    assert len(provenance["runs"]) == 3


def test_runs_of_other_processors_settings_or_engines_are_refused(tmp_path, run):
    first = _written(tmp_path, "a", run, day=1)
    other_cpu = _written(tmp_path, "b", run, day=2, cpu_features=["avx2"])
    run["provenance"]["config"]["step_time"]["num_steps"] += 1
    other_plan = _written(tmp_path, "c", run, day=3)
    for other, what in ((other_cpu, "cpu_features"), (other_plan, "settings")):
        with pytest.raises(MeasurementError, match=f"another {what}"):
            pool_step_times([first, other], tier="mini")


def test_one_run_alone_or_twice_is_no_pool(tmp_path, run):
    first = _written(tmp_path, "a", run, day=1)
    with pytest.raises(MeasurementError, match="two or more"):
        pool_step_times([first], tier="mini")
    with pytest.raises(MeasurementError, match="stands twice"):
        pool_step_times([first, first], tier="mini")
