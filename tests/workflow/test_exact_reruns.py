"""What a change runs again: exactly the rules that use a changed module, and exactly those that read a changed setting.

A rule runs again by itself when its params, its inputs or its command change; what comes after it follows by the graph.
"""

import ast
import json
import re
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "lora_spec"
pytestmark = pytest.mark.workflow

# Modules and all scripts that can run them, by what they are for: one of every room, and the one that all can.
USED_BY = {
    "adapter/runtimes/vllm.py": {"diagnostic"},
    "cost_model/step_fitting.py": {"fit_step_cost"},
    "engines/vllm_server.py": {"phase5_serving", "soak"},
    "errors.py": {path.stem for path in (ROOT / "scripts").glob("*.py")},
    "gate/pools.py": {"write_policy", "gate_regret", "diagnostic"},
    "kept_results.py": {"phase3_predictor", "compare_predictors", "hold_out_families", "ship_fits"},
    "measurement/cost_runs.py": {"profile_cost_parts"},
    "measurement/preflight/checks.py": {"preflight"},
    "measurement/seed_noise.py": {"seed_noise"},
    "plots/fleet_page.py": {"write_policy", "diagnostic"},
    "stress/mixes/study.py": {"gate_regret"},
    "training/distill.py": {"train_drafter", "train_target"},
    "training/target.py": {"fetch_target_wheel", "build_target"},
}
# Modules that many use: no more scripts than an import graph drawn by another tool allows.
SHARED = (
    "config/traffic.py",
    "engines/replay.py",
    "evaluation/selective.py",
    "features/on_base.py",
    "policy/control.py",
    "predictors/elastic_net.py",
    "stress/simulator/engine.py",
    "traffic/schedule.py",
    "training/domains/sql.py",
)


def _imported(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.fixture(scope="module")
def used_modules():
    """Return a function: script to the modules behind it, by an import graph that another tool draws.

    A registry names modules in strings, which are imported when they are asked for, so these count too.
    """
    graph = grimp.build_graph("lora_spec", cache_dir=None)
    spelt = {
        module: {
            name
            for name in re.findall(r'"(lora_spec(?:\.\w+)+)', _file_of(module).read_text())
            if name in graph.modules
        }
        for module in graph.modules
    }

    def modules(script):
        found, waiting = set(), [name for name in _imported(script) if name in graph.modules]
        while waiting:
            module = waiting.pop()
            if module not in found:
                found.add(module)
                parents = {module.rpartition(".")[0]} & graph.modules
                waiting += graph.find_modules_directly_imported_by(module) | spelt[module] | parents
        return found

    return modules


def _file_of(module):
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def test_a_changed_module_changes_exactly_the_scripts_that_use_it(run_in_planning_root, used_modules):
    """Each rule hands the digest of its script to Snakemake (test_rules_are_whole), so these are the rules that rerun.

    That what a script really ran is among the files of its digest, a whole run shows (test_rerun).
    """
    told = json.loads(run_in_planning_root(Path(__file__).with_name("digests_as_json.py"), *USED_BY, *SHARED))
    before = told.pop("")
    changed = {
        module: {script for script, digest in digests.items() if digest != before[script]}
        for module, digests in told.items()
    }
    assert {module: changed[module] for module in USED_BY} == USED_BY
    behind = {script: used_modules(ROOT / "scripts" / f"{script}.py") for script in before}
    for module in SHARED:
        name = ".".join(("lora_spec", *Path(module).with_suffix("").parts))
        assert set() < changed[module] < set(before), module
        assert changed[module] <= {script for script, used in behind.items() if name in used}, module


def test_a_changed_module_runs_again_the_rules_of_the_scripts_that_use_it(reruns):
    rules = {"measurement/seed_noise.py": {"seed_noise"}, "plots/fleet_page.py": {"policy"}}
    first = {module: (PACKAGE / module).read_text().splitlines()[0] for module in rules}
    edits = [(name, f"src/lora_spec/{name}", line, f"{line}\n# changed") for name, line in first.items()]
    assert reruns("cpu", *edits) == rules


ENGINE = {
    "phase0_vllm_runner",
    "phase1_collect",
    "phase2_screen",
    "confirm_live",
    "calibration_probe",
    "phase2_confirm",
}
ENGINE |= {"profile_cost", "phase5_serving"}
# The gate is one block: whoever judges by it records all of it.
GATE = {
    "phase3_predictor",
    "phase3_predictor_probed",
    "certify_verdicts",
    "certify_verdicts_probed",
    "decide",
    "policy",
}
GATE |= {"compare_predictors", "hold_out_families", "gate_regret", "join_tables"}
ESTIMATES = {"estimate_acceptance", "report_transfer", "phase2_screen", "phase1_effect_gate", "seed_noise"}
SETTINGS = {
    "models.yaml max_lora_rank: 16 -> 32": ENGINE | {"policy"},
    # Of the recipe of a shipped drafter, only which text it learned from is read.
    "models.yaml num_heldout_prompts: 128 -> 129": {"domain_overlap"},
    "adapter_pool.yaml num_worst: 4 -> 3": {"phase2_confirm_plan"},
    "phase1_measurement.yaml num_live_prompts: 32 -> 16": {"confirm_live"},
    "phase1_measurement.yaml num_bootstrap_draws: 10000 -> 9000": ESTIMATES,
    "phase1_measurement.yaml num_trials: 12 -> 11": {"profile_cost"},
    "gate.yaml num_uncertainty_draws: 2000 -> 3000": GATE | {"fit_cost_model"},
    "traffic.yaml exponent: 1.0 -> 1.5": {"phase5_serving", "gate_regret"},
    "phase0_runtime.yaml max_abs_z: 4 -> 5": {"phase0_vllm_runner", "phase0_composability"},
}


def test_a_changed_setting_runs_again_exactly_the_rules_that_read_it(reruns):
    edits = []
    for text in SETTINGS:
        file, key, old, new = re.fullmatch(r"(\S+) (\w+): (.+) -> (.+)", text).groups()
        edits.append((text, f"configs/cpu/{file}", f"{key}: {old}", f"{key}: {new}"))
    assert reruns("cpu", *edits) == SETTINGS
