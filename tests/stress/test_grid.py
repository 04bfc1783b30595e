"""The grid of cells: the same arrivals for all, taken over when finished, and the smoke test's files."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lora_spec.errors import EvidenceError
from lora_spec.results import read_result
from lora_spec.stress import grid as grid_module
from lora_spec.stress.grid import Cell, run_cell, run_grid
from lora_spec.stress.smoke import smoke_grid

REPOSITORY = Path(__file__).resolve().parents[2]


def _small(**changes):
    whole = smoke_grid(seed=0)
    traffic = {
        **whole.traffic,
        "patterns": whole.traffic["patterns"][1:2],
        "request_rates_req_s": [2.0],
        "duration_s": 12.0,
        "warmup_s": 2.0,
        "seeds": [0, 1],
    }
    return replace(whole, traffic=traffic, policies=("always_off", "best_static_k"), **changes)


def test_cells_are_the_product_of_all_axes():
    cells = _small().cells()
    assert len(cells) == 1 * 2 * 1 * 2 * 2
    assert len({cell.key for cell in cells}) == len(cells)


def test_every_policy_meets_the_same_requests():
    names = ("always_off", "best_static_k", "oracle")
    runs = [run_cell(_small(), Cell("zipf", "warm", 2.0, 0, name)) for name in names]
    assert len({run["summary"]["num_requests"] for run in runs}) == 1


def test_hindsight_is_never_worse_than_what_it_chooses_from():
    times = {
        name: run_cell(_small(), Cell("zipf", "limited", 2.0, 1, name))["summary"]["times_ms"]["e2el_ms"]["mean"]
        for name in ("always_off", "always_standing_k", "best_static_k", "oracle")
    }
    assert times["oracle"] <= times["best_static_k"] * 1.001
    assert times["best_static_k"] <= min(times["always_off"], times["always_standing_k"])


def test_a_limited_cache_loads_adapters_and_a_warm_one_does_not():
    loads = [
        run_cell(_small(), Cell("zipf", mode, 2.0, 0, "always_off"))["summary"]["num_adapter_loads"]
        for mode in ("warm", "limited")
    ]
    assert loads[0] == 0 < loads[1]


def test_finished_cells_are_taken_over_and_those_of_other_inputs_are_not(tmp_path, monkeypatch):
    first = list(run_grid(_small(), tmp_path, threads=1))
    ran = []
    monkeypatch.setattr(grid_module, "run_cell", lambda grid, cell: ran.append(cell) or run_cell(grid, cell))
    assert list(run_grid(_small(), tmp_path, threads=1)) == first
    assert ran == []
    (tmp_path / f"{_small().cells()[3].key}.json").write_text('{"digest": ')
    assert list(run_grid(_small(), tmp_path, threads=1)) == first
    assert ran == [_small().cells()[3]]
    list(run_grid(_small(inputs_sha256="other"), tmp_path, threads=1))
    assert len(ran) == 1 + len(first)


def test_processes_give_what_one_gives(tmp_path):
    one = list(run_grid(_small(), tmp_path / "one", threads=1))
    two = list(run_grid(_small(), tmp_path / "two", threads=2))
    assert one == two


def test_the_smoke_test_writes_a_result_that_is_no_evidence_and_its_figure(tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", "scripts/phase5_serving.py", "--smoke-test", "--output-dir", str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "NOT EVIDENCE" in done.stderr
    with pytest.raises(EvidenceError):
        read_result(tmp_path / "serving_stress.json", kind="serving_stress")
    payload = json.loads((tmp_path / "serving_stress.json").read_text())["payload"]
    assert len(payload["policies"]) == 3 * 2 * 2 * 10
    for ending in ("csv", "pdf", "png"):
        assert (tmp_path / f"fig10_serving_stress.{ending}").stat().st_size > 1000
