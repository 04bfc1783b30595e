"""The live run that a tier's config files describe, with the tiny pair in place of the tier's models."""

import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stress_runs import FLEET

from lora_spec.cli import live_stress
from lora_spec.cli.live_stress import LiveInputs, live_plan_payload, run_live, write_live_record
from lora_spec.config import load_tier
from lora_spec.config.traffic import TrafficConfig
from lora_spec.cost_model.model import CostModel
from lora_spec.errors import ConfigError
from lora_spec.gate.fleet_verdicts import FleetVerdict
from lora_spec.measurement.served_files import adapter_files_sha256
from lora_spec.stress.live_summary import live_stress_payload
from lora_spec.stress.live_table import read_live

ROOT = Path(__file__).parents[2]
ROWS = {"sql": "strong", "upper_case": "stronger", "self_chat": "weak"}
ACTIONS = {"sql": "amber", "upper_case": "red", "self_chat": "green"}
pytestmark = [
    pytest.mark.serving,
    pytest.mark.filterwarnings("default"),
    pytest.mark.allow_hosts(["127.0.0.1"]),
]


@pytest.fixture(scope="module")
def tier():
    """Return tier mini with a run of seconds."""
    found = load_tier(ROOT, "mini")
    values = found.traffic.to_dict()
    values["prompt_lengths"] = [{"num_prompt_tokens": 24, "share": 1.0}]
    values["live"] |= {
        "policies": ["best_static_k", "policy_file"],
        "num_adapters": 3,
        "duration_s": 2.0,
        "warmup_s": 0.0,
        "output_tokens": 8,
        "max_other_cores": 99.0,
    }
    engine = found.models.engine.model_copy(update={"max_model_len": 128, "dtype": "float32", "max_num_seqs": 8})
    models = found.models.model_copy(update={"engine": engine})
    return replace(found, traffic=TrafficConfig.model_validate(values), models=models)


def _verdict(name, folder):
    return FleetVerdict(
        name=name,
        weights_sha256=adapter_files_sha256(folder)["adapter_model.safetensors"],
        mode="measured",
        action=ACTIONS[name],
        num_speculative_tokens=1,
        drafter="keep",
        acceptance_length=None,
        speedup=None,
        by_load=(),
        context={},
        reasons=(),
        predictor_sha256=None,
        evidence="measured",
        path=folder,
    )


@pytest.fixture(scope="module")
def folders(adapters):
    return {row: Path(adapters[tiny].path) for row, tiny in ROWS.items()}


@pytest.fixture(scope="module")
def inputs(folders):
    times = np.array([[10.0, 14.0], [11.0, 16.0], [12.0, 18.0], [13.0, 20.0]])
    fleet = {**FLEET, "adapters": {row: FLEET["adapters"][tiny] for row, tiny in ROWS.items()}}
    return LiveInputs(
        verdicts={name: _verdict(name, folder) for name, folder in folders.items()},
        lengths=dict.fromkeys(ROWS, (1.0, 1.5, 1.7, 1.8, 1.8)),
        cost_model=CostModel((0, 1, 2, 3), (1, 8), times, times[None], context={}),
        fleet=fleet,
    )


def test_a_plan_names_adapters_and_depths_before_anything_runs(tier, inputs):
    plan = live_plan_payload(tier, inputs)
    assert {item["name"]: item["action"] for item in plan["adapters"]} == ACTIONS
    assert sorted(plan["policies"]) == sorted(name for names in plan["trials"].values() for name in names)
    assert live_plan_payload(tier, None)["adapters"] is None


def test_the_run_of_a_tier_is_recorded_with_all_that_comparing_needs(tier, inputs, folders, pair, tmp_path):
    target, drafter = map(Path, pair)
    done, payload = run_live(
        tier,
        inputs,
        target=target,
        drafter=drafter,
        adapters=folders,
        state_dir=tmp_path / "state",
        lock=nullcontext,
    )
    write_live_record(tmp_path / "live.parquet", tier, done, payload)
    live = read_live(tmp_path / "live.parquet", tier="mini")
    assert {adapter["name"] for adapter in live.payload["adapters"]} == set(ROWS)
    compared = live_stress_payload(live, level=0.9)
    assert [row["policy"] for row in compared["policies"]] == ["best_static_k", "policy_file"]
    assert all(row["num_failed"] == 0 < row["num_requests"] for row in compared["policies"])
    assert compared["cores"]["server_cores"]["mean"] > 0


@pytest.mark.parametrize("script", ["phase5_serving", "soak"])
def test_the_script_starts_in_the_environment_of_the_engine(script):
    command = [sys.executable, "-P", f"scripts/{script}.py", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--config" in done.stdout


def test_weights_that_the_verdict_is_not_about_are_not_served(tier, inputs, folders, pair, tmp_path, monkeypatch):
    monkeypatch.setattr(live_stress, "measure_live", lambda *args, **options: pytest.fail("a server was started"))
    target, drafter = map(Path, pair)
    swapped = {**folders, "sql": folders["self_chat"]}
    with pytest.raises(ConfigError, match="sql"):
        run_live(tier, inputs, target=target, drafter=drafter, adapters=swapped, state_dir=tmp_path)
    del swapped["sql"]
    with pytest.raises(ConfigError, match="no folder"):
        run_live(tier, inputs, target=target, drafter=drafter, adapters=swapped, state_dir=tmp_path)
