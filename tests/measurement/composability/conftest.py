"""A plan on the mini tier's shipped adapters, and a runner whose cells are a stand-in program."""

import dataclasses
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.engines import AdapterRef
from lora_spec.measurement.composability import runner as runner_module
from lora_spec.measurement.composability.plan import plan_phase0
from lora_spec.measurement.composability.runner import CellRunner, RunInputs
from lora_spec.measurement.composability.store import ObservationStore

ROOT = Path(__file__).parents[3]
FAKE = (sys.executable, str(Path(__file__).with_name("fake_cell.py")))


@pytest.fixture(scope="session")
def tier():
    """Return the mini tier with both cache tests: it runs one of them only, to save a start of the engine."""
    mini = load_tier(ROOT, "mini")
    both = mini.phase0_runtime.model_copy(update={"cache_tests": ("coming_and_going", "reregistration")})
    return dataclasses.replace(mini, phase0_runtime=both)


@pytest.fixture(scope="session")
def config(tier):
    return tier.phase0_runtime


@pytest.fixture(scope="session")
def plan(tier):
    return plan_phase0(tier)


@pytest.fixture
def inputs(config):
    folder = ROOT / "reference" / "mini" / "adapters"
    refs = tuple(AdapterRef(name, str(folder / name), 8) for name in config.adapters.names)
    return RunInputs("target", "drafter", refs, {"model:target": {"model.safetensors": "0" * 64}})


@pytest.fixture
def make_run(plan, inputs, tmp_path, monkeypatch):
    """Return a function that opens runner and store anew, as a process started again would."""
    monkeypatch.setattr(runner_module, "installed_vllm", lambda: plan.config.vllm_version)

    def make(output: Path = tmp_path / "observations.json"):
        ids = [cell.cell_id for cell in plan.cells]
        store = ObservationStore(output, order=ids, vllm_version=plan.config.vllm_version, tier=plan.tier)
        return CellRunner(plan, inputs, store.folder, program=FAKE, lock=nullcontext), store

    return make
