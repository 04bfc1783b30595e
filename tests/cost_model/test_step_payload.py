import json
import subprocess
import sys
from pathlib import Path

import pytest
from known_parts import PRICES, made_cells, made_loads

from lora_spec.cost_model.step_fitting import fit_step_costs
from lora_spec.cost_model.step_payload import read_step_cost_validation, read_step_costs
from lora_spec.cost_model.step_validation import validate_step_costs
from lora_spec.errors import ResultError
from lora_spec.measurement.cost_parts_payload import read_cost_parts
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result

ENGINE = {"vllm": "0.32.0", "dtype": "bfloat16", "target": "t", "drafter": "d"}


def _write(path, kind, payload):
    provenance = collect_provenance(config={}, seed=0)
    write_result(path, kind=kind, evidence="measured", tier="mini", provenance=provenance, payload=payload)
    return path


@pytest.fixture
def cost_parts(tmp_path):
    payload = {
        "cells": [cell.to_dict() for cell in made_cells()],
        "loads": [load.to_dict() for load in made_loads()],
        "engines": {"served": ENGINE},
    }
    return _write(tmp_path / "cost_parts.json", "cost_parts", payload)


def test_a_record_gives_its_cells_back_by_use(cost_parts):
    record = read_cost_parts(cost_parts, tier="mini")
    assert list(record.cells) == made_cells()
    assert {cell.use for cell in record.cells_for("fit")} == {"fit"}
    assert {load.lora_rank for load in record.loads_for("validation")} == {4}
    assert record.engine == ENGINE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depths": [-1]}, "no step can be so"),
        ({"arm": "other"}, "arm"),
        ({"step_ms": []}, "no steps"),
        ({"x": 1}, "x"),
    ],
)
def test_a_damaged_cell_is_refused_by_the_files_name(cost_parts, change, message):
    data = json.loads(cost_parts.read_text())
    data["payload"]["cells"][0] |= change
    _write(cost_parts, "cost_parts", data["payload"])
    with pytest.raises(ResultError, match=rf"cost_parts\.json.*{message}"):
        read_cost_parts(cost_parts)


def test_the_script_writes_a_model_that_is_read_back(cost_parts, tmp_path):
    output, root = tmp_path / "step_cost.json", Path(__file__).parents[2]
    command = [sys.executable, "scripts/fit_step_cost.py", "--cost-parts", str(cost_parts), "--tier", "mini"]
    command += ["--settings", json.dumps({"num_uncertainty_draws": 10, "seed": 0}), "--engine", json.dumps(ENGINE)]
    done = subprocess.run([*command, "--output", str(output)], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    model = read_step_costs(output, tier="mini")
    assert model.parts_ms[0] == pytest.approx(PRICES["step_ms"])
    assert model.context["engine"] == ENGINE


def test_a_validation_is_read_back(tmp_path):
    model = fit_step_costs(made_cells(), made_loads(), num_draws=2, seed=0)
    payload = validate_step_costs(made_cells(), made_loads(), model, acceptance_lengths={2: [1.5]})
    path = _write(tmp_path / "validation.json", "step_cost_validation", payload)
    assert read_step_cost_validation(path, tier="mini").payload["step_error"]["is_met"] is True
