"""Every rule of every tier says what it does, where it logs and what it takes; profiles name rules that there are."""

import re
from pathlib import Path

import pytest
import yaml

from lora_spec.provenance import code_digest

ROOT = Path(__file__).parents[2]
TIERS = ("mini", "cpu", "paper")
PROFILES = sorted(path for path in (ROOT / "profiles").iterdir() if path.is_dir())
pytestmark = pytest.mark.workflow


@pytest.mark.parametrize("tier", TIERS)
def test_every_rule_says_what_it_does_where_it_logs_and_what_it_takes(plan_of, tier):
    plan = plan_of(tier)
    for name, rule in plan["rules"].items():
        if rule["shell"] is None:
            assert name in plan["local"], f"{name} only gathers, so it is no job to submit"
            continue
        assert rule["docstring"], name
        assert rule["message"], name
        assert len(rule["log"]) == 1, name
        assert {"mem_mb", "runtime", "disk_mb"} <= set(rule["resources"]), name
        assert not rule["retries"], f"{name}: retries stand in profiles; pip and the hub's client have their own"
        assert (rule["benchmark"] is not None) or "gpu" not in rule["resources"] or name == "preflight", name
    logs = [tuple(rule["log"]) for rule in plan["rules"].values() if rule["log"]]
    assert len(set(logs)) == len(logs), "two rules write one log"


@pytest.mark.parametrize("tier", TIERS)
def test_a_rule_depends_on_the_code_of_the_script_that_it_runs(plan_of, tier):
    for name, job in plan_of(tier)["jobs"].items():
        if job["shell"] is not None:
            (script,) = re.findall(r"scripts/(\w+)\.py", job["shell"])
            assert repr(code_digest(ROOT / "scripts" / f"{script}.py")) in job["params"], name


def test_lint_finds_nothing_in_the_tier_that_has_every_rule(snakemake, plan_of):
    assert all(set(plan_of(tier)["rules"]) <= set(plan_of("paper")["rules"]) for tier in TIERS)
    done = snakemake("--lint", "--config", "tier=paper", "measurements=fresh")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.name)
def test_a_profile_names_rules_that_there_are_and_no_others(plan_of, profile):
    """Snakemake takes a misspelt rule without a word; a rule that only one tier has is enough."""
    known = {name for tier in TIERS for name in plan_of(tier)["rules"]}
    for path in profile.glob("*.yaml"):
        entries = yaml.safe_load(path.read_text())
        for key in ("set-resources", "set-threads", "set-scatter"):
            assert set(entries.get(key) or {}) <= known, (path, key)
