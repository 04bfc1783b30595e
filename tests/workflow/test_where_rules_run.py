"""Which rules are submitted where a cluster is used, and that profiles speak of these and of no others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CLUSTERS = ("slurm", "slurm-test", "generic")
pytestmark = pytest.mark.workflow

# Snakemake tells neither on its command line: a dry run shows no rule as local, and lists no resources of rules.
_PROGRAM = """
import json, sys
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, Quietness, ResourceSettings

config = ConfigSettings(config={"tier": sys.argv[1], "measurements": "fresh"})
with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
    workflow = api.workflow(ResourceSettings(), config_settings=config, snakefile=Path("Snakefile"))._workflow
    rules = {
        rule.name: {
            "is_local": rule.name in workflow._localrules or rule.norun,
            "is_target": rule.norun,
            "resources": {name: rule.resources[name]._value for name in rule.resources},
            "retries": rule.ruleinfo.retries,
            "shell": rule.shellcmd or "",
            "python": dict(rule.params.items()).get("python"),
        }
        for rule in workflow.rules
    }
print("RULES" + json.dumps(rules, default=str))
"""


def _rules(checkout, tier):
    command = [sys.executable, "-c", _PROGRAM, tier]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("RULES")[2])


@pytest.fixture
def rules(checkout):
    """Return name to facts of every rule of a tier that has a second pair and a preflight, and so all rules."""
    return _rules(checkout, "paper")


def _settings(profile):
    return yaml.safe_load((ROOT / "profiles" / profile / "config.yaml").read_text())


def test_a_rule_is_submitted_if_and_only_if_it_may_want_a_device(rules):
    submitted = {name for name, rule in rules.items() if not rule["is_local"]}
    asking = {name for name, rule in rules.items() if "gpu" in rule["resources"]}
    assert submitted == asking
    assert {"phase1_collect", "profile_cost", "phase5_serving", "train_adapter", "phase2_confirm"} <= submitted


def test_every_submitted_rule_says_what_it_needs_and_runs_in_the_serving_environment(rules):
    for name, rule in rules.items():
        if rule["is_local"]:
            continue
        assert {"gpu", "mem_mb", "runtime", "_cores"} <= set(rule["resources"]), name
        # The preflight has to speak where there is no serving environment yet.
        assert (rule["python"] == ".venv-serving/bin/python") == (name != "preflight"), name
        # Such a retry happens inside the job that failed, where more memory or time cannot be had.
        assert not rule["retries"], name


@pytest.mark.parametrize(("tier", "num_devices"), [("cpu", 0), ("paper", 1)])
def test_one_device_is_asked_for_where_the_engine_of_the_tier_runs_on_one(checkout, tier, num_devices):
    asked = [rule["resources"]["gpu"] for rule in _rules(checkout, tier).values() if "gpu" in rule["resources"]]
    assert asked
    assert set(asked) == {num_devices}


@pytest.mark.parametrize("profile", CLUSTERS)
def test_a_cluster_profile_names_every_submitted_rule_and_no_other(rules, profile):
    settings = _settings(profile)
    submitted = {name for name, rule in rules.items() if not rule["is_local"]}
    # A name that no rule has would be accepted in silence.
    assert set(settings["set-resources"]) == submitted
    assert set(settings.get("set-threads", {})) <= submitted


def test_a_misspelt_rule_in_anyones_profile_is_refused_and_one_of_another_tier_is_not(snakemake, tmp_path_factory):
    profile = tmp_path_factory.mktemp("my profile")
    for name, code in (("phase1_colect", 1), ("train_confirm_adapter", 0)):
        (profile / "config.yaml").write_text(f"set-resources:\n  {name}:\n    runtime: 2h\n")
        done = snakemake("--dry-run", "--workflow-profile", str(profile), "--config", "tier=mini", "--", "figures")
        assert done.returncode == code, done.stderr
        assert ("write phase1_collect" in done.stdout + done.stderr) == bool(code)


@pytest.mark.parametrize("profile", CLUSTERS)
def test_a_second_attempt_gets_more_memory_and_time(profile):
    for name, wanted in _settings(profile)["set-resources"].items():
        for resource in ("mem_mb", "runtime"):
            assert eval(wanted[resource], {"attempt": 2}) > eval(wanted[resource], {"attempt": 1}), (name, resource)


@pytest.mark.parametrize("profile", CLUSTERS)
def test_no_job_is_cut_down_to_what_the_submitting_machine_has(profile):
    """Snakemake cuts each resource of each job, submitted or not, down to the limit that a profile sets for all."""
    settings = _settings(profile)
    assert "cores" not in settings
    assert not {"mem_mb", "runtime"} & set(settings["resources"])


@pytest.mark.parametrize("profile", CLUSTERS)
def test_rules_that_stay_share_few_places_and_submitted_ones_take_none(profile):
    settings = _settings(profile)
    assert settings["default-resources"]["on_host"] == 1 <= settings["resources"]["on_host"] <= 2
    assert {wanted["on_host"] for wanted in settings["set-resources"].values()} == {0}


def test_the_test_cluster_is_used_as_a_real_one_is():
    """What the two profiles do not share is small or quick on the test cluster; what they do not both have is named."""
    real, small = _settings("slurm"), _settings("slurm-test")
    quicker = {"jobs", "retries", "latency-wait", "resources", "default-resources", "set-resources"}
    for key in set(real) & set(small) - quicker:
        assert real[key] == small[key], key
    assert set(real) - set(small) == {"set-threads"}
    assert set(small) - set(real) == {"slurm-init-seconds-before-status-checks"}
    assert small["slurm-status-command"] == "squeue"
