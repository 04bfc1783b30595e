"""Print as JSON what Snakemake plans in the current folder, and which rules each of some edits, undone again, reruns.

python plan_as_json.py '{"config": {"tier": "cpu"}, "edits": [["name", "path", "old text", "new text"]]}'

In one process, since a second look at the workflow takes half a second where a new process takes three.
"""

import json
import sys
from pathlib import Path
from typing import Any

from snakemake.api import SnakemakeApi
from snakemake.settings.types import (
    ConfigSettings,
    OutputSettings,
    Quietness,
    ResourceSettings,
    WorkflowSettings,
)


def plan(config: dict[str, str]) -> dict[str, Any]:
    """Return rules by name, and jobs by rule and first output."""
    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL}, enable_file_logging=False)) as api:
        opened = api.workflow(
            resource_settings=ResourceSettings(cores=2),
            config_settings=ConfigSettings(config=config),
            workflow_settings=WorkflowSettings(),
        )
        opened.dag()
        workflow = opened._workflow
        rules = {rule.name: _rule(rule) for rule in workflow.rules}
        workflow._prepare_dag(
            forceall=True, ignore_incomplete=True, lock_warn_only=True, nolock=True, shadow_prefix=None
        )
        workflow._build_dag()
        jobs = {f"{job.rule.name} {min(map(str, job.output), default='')}": _job(job) for job in workflow.dag.jobs}
        return {"rules": rules, "jobs": jobs, "local": sorted(rule for rule in workflow._localrules)}


def _rule(rule: Any) -> dict[str, Any]:
    return {
        "docstring": rule.docstring,
        "message": rule.message,
        "shell": rule.shellcmd,
        "log": [str(path) for path in rule.log],
        "benchmark": None if rule.benchmark is None else str(rule.benchmark),
        "resources": sorted(rule.resources),
        "retries": rule._restart_times,
        "input_names": [name for name, _ in rule.input._get_names()],
    }


def _job(job: Any) -> dict[str, Any]:
    """Return what makes Snakemake run a job again: its inputs, its own params, its command; and what it may take."""
    numbers = {key: value for key, value in job.resources.items() if isinstance(value, int) and not key.startswith("_")}
    return {
        "rule": job.rule.name,
        "inputs": sorted(map(str, job.input)),
        "outputs": sorted(str(path) for path in job.output if not path.is_directory),
        "folders": sorted(str(path) for path in job.output if path.is_directory),
        "params": sorted(repr(value) for value in job.non_derived_params),
        "shell": job.rule.shellcmd,
        "threads": job.threads,
        "resources": numbers,
    }


def rerun(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the rules with a job that an edit runs again by itself, adds or takes away; the graph tells the rest."""
    names = before["jobs"].keys() | after["jobs"].keys()
    pairs = [(before["jobs"].get(name), after["jobs"].get(name)) for name in names]
    own = ("inputs", "params", "shell")
    return sorted(
        {
            (old or new)["rule"]
            for old, new in pairs
            if old is None or new is None or any(old[key] != new[key] for key in own)
        }
    )


def main() -> None:
    """Print the plan and the rules that rerun."""
    asked = json.loads(sys.argv[1])
    before, found = plan(asked["config"]), {}
    for name, path, old, new in asked["edits"]:
        text = Path(path).read_text()
        if old not in text:
            raise SystemExit(f"{name}: {old!r} is not in {path}")
        Path(path).write_text(text.replace(old, new, 1))
        try:
            found[name] = rerun(before, plan(asked["config"]))
        finally:
            Path(path).write_text(text)
    print(json.dumps({"plan": before, "reruns": found}))


if __name__ == "__main__":
    main()
