"""What a change runs again: exactly the rules that use a changed module, and exactly those that read a changed setting.

A rule runs again by itself when its params, its inputs or its command change; what comes after it follows by the graph.
"""

import ast
import re
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "lora_spec"
pytestmark = pytest.mark.workflow

# One module of every room, one deep inside where a room is large.
MODULES = (
    "adapter/header.py",
    "cli/settings_flags.py",
    "config/traffic.py",
    "cost_model/step_fitting.py",
    "engines/replay.py",
    "engines/vllm_server.py",
    "errors.py",
    "evaluation/selective.py",
    "features/on_base.py",
    "gate/pools.py",
    "joins.py",
    "kept_results.py",
    "measurement/cost_runs.py",
    "measurement/seed_noise.py",
    "plots/fleet_page.py",
    "policy/control.py",
    "predictors/elastic_net.py",
    "stress/simulator/engine.py",
    "traffic/schedule.py",
    "training/domains/sql.py",
    "training/target.py",
)


def _changed(before, after):
    """Return the rules with a job whose own triggers changed, was added or is gone."""
    names = set(before["jobs"]) | set(after["jobs"])
    pairs = {name: (before["jobs"].get(name), after["jobs"].get(name)) for name in names}
    own = ("inputs", "params", "shell")
    return {
        (old or new)["rule"]
        for old, new in pairs.values()
        if old is None or new is None or any(old[key] != new[key] for key in own)
    }


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


def test_a_changed_module_runs_again_exactly_the_rules_that_use_it(plans, used_modules):
    edits = []
    for module in MODULES:
        first = (PACKAGE / module).read_text().splitlines()[0]
        edits.append((module, f"src/lora_spec/{module}", first, f"{first}\n# changed"))
    planned = plans("cpu", *edits)
    before = planned[""]
    scripts = {job["rule"]: re.search(r"scripts/(\w+)\.py", job["shell"] or "") for job in before["jobs"].values()}
    behind = {rule: used_modules(ROOT / "scripts" / f"{found[1]}.py") for rule, found in scripts.items() if found}
    for module in MODULES:
        name = ".".join(("lora_spec", *Path(module).with_suffix("").parts))
        assert _changed(before, planned[module]) == {rule for rule, used in behind.items() if name in used}, module
