"""What the workflow plans, for every tier and profile, without an engine, a GPU or Slurm."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

import lora_spec
from lora_spec.config import load_tier

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.workflow

MINI_JOBS = {
    "adapter_table": 1,
    "all": 1,
    "assemble_drafter": 1,
    "build_target": 1,
    "certify_verdicts": 1,
    "compare_live_stress": 1,
    "decide": 1,
    "estimate_acceptance": 1,
    "extract_features": 7,
    "fetch_target_wheel": 1,
    "fit_cost_model": 1,
    "freeze_prompts": 1,
    "join_tables": 1,
    "phase0_composability": 1,
    "phase0_vllm_runner": 1,
    "phase1_collect": 1,
    "phase1_effect_gate": 1,
    "phase3_predictor": 1,
    "phase5_serving": 1,
    "plot_figure": 8,
    "policy": 1,
    "profile_cost": 1,
    "write_verdict_table": 1,
}


def test_bare_dry_run_plans_the_mini_tier(snakemake, job_counts):
    done = snakemake("--dry-run")
    assert done.returncode == 0, done.stderr
    assert job_counts(done) == MINI_JOBS


@pytest.mark.parametrize("tier", ["mini", "cpu", "paper"])
@pytest.mark.parametrize("measurements", ["fresh", "shipped"])
def test_every_tier_plans_fresh_and_shipped(snakemake, tier, measurements):
    done = snakemake("--dry-run", "--config", f"tier={tier}", f"measurements={measurements}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("tier", "is_compared"), [("mini", False), ("cpu", True)])
def test_predictors_are_compared_and_drawn_where_there_are_domains_enough(snakemake, job_counts, tier, is_compared):
    done = snakemake("--dry-run", "--config", f"tier={tier}", "measurements=shipped")
    assert job_counts(done).get("compare_predictors", 0) == int(is_compared)
    assert ("fig4_predictor_scores" in done.stdout) == is_compared
    assert job_counts(done).get("gate_regret", 0) == int(is_compared)
    assert ("fig5b_gate_regret" in done.stdout) == is_compared


@pytest.mark.parametrize("num_missing", [0, 1])
def test_the_curve_of_the_probe_is_drawn_where_every_adapter_is_probed(snakemake, checkout, num_missing):
    folder = checkout / "reference" / "cpu"
    (folder / "calibration").mkdir(exist_ok=True)
    for path in sorted((folder / "acceptance").glob("*.parquet")):
        (folder / "calibration" / path.name).touch()
    for path in sorted((folder / "calibration").glob("*.parquet"))[:num_missing]:
        path.unlink()
    done = snakemake("--dry-run", "--printshellcmds", "--config", "tier=cpu", "measurements=shipped")
    assert ("fig4b_probe_curve" in done.stdout) == (not num_missing)
    assert ("--curve-table results/cpu-shipped/tables/probe_curve.csv" in done.stdout) == (not num_missing)


@pytest.mark.parametrize("profile", sorted(path.name for path in (ROOT / "profiles").iterdir() if path.is_dir()))
def test_every_profile_plans_without_what_it_runs_on(snakemake, profile):
    done = snakemake("--dry-run", "--workflow-profile", f"profiles/{profile}")
    assert done.returncode == 0, done.stderr


def test_shipped_run_starts_no_engine(snakemake, job_counts):
    done = snakemake("--dry-run", "--config", "tier=mini", "measurements=shipped")
    engine_rules = {"phase0_vllm_runner", "phase1_collect", "profile_cost", "phase5_serving"}
    engine_rules |= {"build_target", "assemble_drafter", "train_adapter"}
    assert not engine_rules & set(job_counts(done))


@pytest.mark.parametrize(
    ("records", "made"),
    [
        ((), set()),
        (("stress/live.parquet",), {"compare_live_stress"}),
        (("cost_parts.json",), {"simulate_stress"}),
        (
            ("stress/live.parquet", "cost_parts.json"),
            {"compare_live_stress", "simulate_stress", "validate_simulator"},
        ),
    ],
)
def test_policies_under_traffic_are_told_as_far_as_records_are_shipped(snakemake, checkout, job_counts, records, made):
    reference = checkout / "reference" / "cpu"
    shutil.rmtree(reference / "stress", ignore_errors=True)
    (reference / "cost_parts.json").unlink(missing_ok=True)
    for record in records:
        (reference / record).parent.mkdir(exist_ok=True)
        (reference / record).touch()
    done = snakemake("--dry-run", "--config", "tier=cpu", "measurements=shipped")
    assert done.returncode == 0, done.stderr
    rules = {"phase5_serving", "compare_live_stress", "simulate_stress", "validate_simulator"}
    assert rules & set(job_counts(done)) == made
    assert ("fig10_serving_stress" in done.stdout) == ("compare_live_stress" in made)
    assert ("fig10b_simulated_stress" in done.stdout) == ("simulate_stress" in made)


@pytest.mark.parametrize("pool", ["pilot", "self_chat_r4_attn"])
def test_part_of_a_pool_is_not_put_under_traffic(snakemake, job_counts, pool):
    done = snakemake("--dry-run", "--config", "tier=cpu", "measurements=fresh", f"pool={pool}")
    assert done.returncode == 0, done.stderr
    assert "phase5_serving" not in job_counts(done)


def test_a_tier_that_ships_no_observations_still_writes_its_matrix_and_draws_no_figure_of_it(snakemake, checkout):
    shutil.rmtree(checkout / "reference" / "mini" / "phase0", ignore_errors=True)
    done = snakemake("--dry-run", "--config", "tier=mini", "measurements=shipped")
    assert "phase0_composability" in done.stdout
    assert "fig1_composability" not in done.stdout
    assert "--observations-json" not in done.stdout


def test_retraining_the_drafter_is_one_config_switch(snakemake, checkout, job_counts):
    models = checkout / "configs" / "mini" / "models.yaml"
    models.write_text(models.read_text().replace("retrain: false", "retrain: true", 1))
    assert job_counts(snakemake("--dry-run")) == {**MINI_JOBS, "train_drafter": 1}


def test_the_text_to_learn_from_is_written_anew_where_the_config_names_none(snakemake, checkout, job_counts):
    models = checkout / "configs" / "mini" / "models.yaml"
    text = models.read_text().replace("retrain: false", "retrain: true", 1)
    models.write_text(text.replace("trajectories: reference/models/trajectories", "trajectories: null", 1))
    planned = job_counts(snakemake("--dry-run"))
    assert planned == {**MINI_JOBS, "train_drafter": 1, "generate_trajectories": 1}


@pytest.mark.parametrize("parent_is_trained", [False, True])
def test_a_derived_adapter_plans_the_training_of_its_parent(snakemake, checkout, job_counts, parent_is_trained):
    path = checkout / "configs" / "mini" / "adapter_pool.yaml"
    pool = yaml.safe_load(path.read_text())
    parent = next(row for row in pool["adapters"] if row["name"] == "upper_case")
    if parent_is_trained:
        parent["source"] = "trained"
        del parent["path"], parent["sha256"]
    shared = {key: parent[key] for key in ("domain", "license")}
    pool["adapters"].append(
        {**shared, "name": "half", "stratum": "control", "source": "scaled", "parent": "upper_case", "scale": 0.5}
    )
    path.write_text(yaml.safe_dump(pool))
    planned = job_counts(snakemake("--dry-run"))
    made = {"train_adapter": 1} if parent_is_trained else {}
    assert planned == {**MINI_JOBS, "extract_features": 8, "derive_adapter": 1, **made}


def test_figures_depend_on_measurements_and_cost(snakemake):
    done = snakemake("--rulegraph")
    names = dict(re.findall(r'(\d+)\[label = "(\w+)"', done.stdout))
    edges = {(names[a], names[b]) for a, b in re.findall(r"(\d+) -> (\d+)", done.stdout)}
    expected = {
        ("fetch_target_wheel", "build_target"),
        ("build_target", "assemble_drafter"),
        ("build_target", "phase1_collect"),
        ("assemble_drafter", "phase1_collect"),
        ("freeze_prompts", "phase1_collect"),
        ("assemble_drafter", "phase0_vllm_runner"),
        ("phase0_vllm_runner", "phase0_composability"),
        ("phase0_composability", "plot_figure"),
        ("phase1_collect", "estimate_acceptance"),
        ("extract_features", "phase3_predictor"),
        ("phase1_collect", "phase3_predictor"),
        ("profile_cost", "fit_cost_model"),
        ("fit_cost_model", "decide"),
        ("estimate_acceptance", "decide"),
        ("phase3_predictor", "decide"),
        ("phase3_predictor", "certify_verdicts"),
        ("certify_verdicts", "decide"),
        ("decide", "join_tables"),
        ("join_tables", "plot_figure"),
        ("join_tables", "write_verdict_table"),
        ("policy", "phase5_serving"),
        ("decide", "phase5_serving"),
        ("phase5_serving", "compare_live_stress"),
        ("compare_live_stress", "plot_figure"),
    }
    assert expected <= edges


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["tier=huge"], "no tier 'huge'"),
        (["measurements=old"], "choose fresh or shipped"),
        (["pool=half"], "there is no adapter 'half'"),
        (["tier=mini", "pool=pilot"], "choose all, pilot where adapter_pool.yaml names one, or names"),
        (["pool=sql,sqll"], "there is no adapter 'sqll'"),
        (["tiers=mini"], "no such key"),
        (["tier=[1]"], "choose one of: cpu, mini, paper"),
    ],
)
def test_wrong_config_is_refused_in_one_line(snakemake, flags, message):
    done = snakemake("--dry-run", "--config", *flags)
    assert done.returncode != 0
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_the_pilot_makes_and_measures_its_own_adapters_only(snakemake, job_counts):
    pool = load_tier(ROOT, "cpu").adapter_pool
    done = snakemake("--dry-run", "--config", "tier=cpu", "measurements=fresh", "pool=pilot")
    assert done.returncode == 0, done.stderr
    planned = job_counts(done)
    assert planned["extract_features"] == len(pool.pilot) < len(pool.names)
    assert not {"phase2_screen", "phase2_confirm_plan", "report_transfer"} & set(planned)


def test_one_adapter_is_made_and_measured_by_its_name(snakemake, job_counts):
    done = snakemake("--dry-run", "--config", "tier=mini", "measurements=fresh", "pool=sql", "--", "records")
    assert done.returncode == 0, done.stderr
    planned = job_counts(done)
    assert (planned["extract_features"], planned["phase1_collect"]) == (1, 1)
    assert "results/mini/acceptance/sql.parquet" in done.stdout
    assert "upper_case" not in done.stdout
    assert not {"profile_cost", "phase0_vllm_runner", "decide"} & set(planned)


def test_the_whole_pool_is_screened_after_its_pilot_and_confirmed_on_the_second_pair(snakemake, job_counts):
    done = snakemake("--dry-run", "--config", "tier=cpu", "measurements=fresh")
    assert done.returncode == 0, done.stderr
    planned = job_counts(done)
    once = ("phase1_collect", "phase2_screen", "phase2_confirm_plan", "phase2_confirm", "report_transfer")
    for rule in (*once, "domain_overlap", "adapter_table", "seed_noise"):
        assert planned[rule] == 1, rule


def test_the_adapters_that_a_plan_names_are_made_and_measured_on_the_second_pair(snakemake, checkout, job_counts):
    """The predictions are given, so that the plan is there and decides what is left to do."""
    rules = checkout / "rules" / "decide.smk"
    text = rules.read_text()
    made = 'predictions="results/{run}/predictor/predictions.json",\n    log'
    assert made in text
    rules.write_text(text.replace(made, made.replace("predictor", "other")))
    pool = load_tier(ROOT, "cpu").adapter_pool
    chosen = [{"adapter": name, "source": "x", "group": "worst", "predicted": 1.0} for name in pool.remade[:3]]
    run = checkout / "results" / "cpu"
    (run / "predictor").mkdir(parents=True)
    (run / "confirm").mkdir()
    (run / "predictor" / "predictions.json").write_text("{}")
    (run / "confirm" / "plan.json").write_text(json.dumps({"payload": {"chosen": chosen}}))
    done = snakemake(
        "--dry-run", "-p", "--rerun-triggers", "mtime", "--config", "tier=cpu", "measurements=fresh",
        "--", "results/cpu/confirm/acceptance",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    planned = job_counts(done)
    assert planned["train_confirm_adapter"] == 3
    assert "phase2_confirm_plan" not in planned
    for item in chosen:
        assert f"{item['adapter']}=results/cpu/confirm/adapters/{item['adapter']}" in done.stdout


def test_shipped_records_of_the_second_pair_are_reported_without_an_engine(snakemake, checkout, job_counts):
    (checkout / "reference" / "cpu" / "confirm" / "acceptance").mkdir(parents=True, exist_ok=True)
    (checkout / "reference" / "cpu" / "confirm" / "plan.json").write_text('{"payload": {"chosen": []}}')
    planned = job_counts(snakemake("--dry-run", "--config", "tier=cpu", "measurements=shipped"))
    assert planned["report_transfer"] == 1
    assert not {"phase2_confirm", "train_confirm_adapter", "train_target"} & set(planned)


@pytest.mark.parametrize(("tier", "num_profiles"), [("cpu", 1), ("mini", 0)])
def test_a_base_profile_is_recorded_once_where_the_tier_asks_for_one(snakemake, job_counts, tier, num_profiles):
    done = snakemake("--dry-run", "--printshellcmds", "--config", f"tier={tier}", "measurements=fresh")
    assert done.returncode == 0, done.stderr
    counts = job_counts(done)
    assert counts.get("base_profile", 0) == num_profiles
    told = (done.stdout + done.stderr).count(f"--base-profile results/{tier}/base_profile.safetensors")
    assert told == num_profiles * counts["extract_features"]


def test_the_calibration_probe_is_planned_where_a_tier_has_prompts_for_it(snakemake, job_counts):
    done = snakemake("--dry-run", "--config", "tier=cpu", "measurements=fresh", "pool=pilot", "--", "calibration")
    assert done.returncode == 0, done.stderr
    assert job_counts(done)["calibration_probe"] == 1
    for flags in (("tier=mini",), ("tier=cpu", "measurements=shipped")):
        done = snakemake("--dry-run", "--config", *flags, "--", "calibration")
        assert done.returncode == 0, done.stderr
        assert "calibration_probe" not in job_counts(done)


PAPER = ("--config", "tier=paper", "measurements=fresh")
# As the Slurm plugin starts Snakemake on a compute node, for one job; this one is over in a second.
ON_A_NODE = (
    "--mode",
    "remote",
    "--executor",
    "local",
    "--nolock",
    "--force",
    "--target-jobs",
    "freeze_prompts:run=paper",
)
ON_A_NODE += ("--allowed-rules", "freeze_prompts", "--")


@pytest.mark.parametrize(
    "flags",
    [
        ("--dry-run", *PAPER, "--workflow-profile", "profiles/slurm"),
        (*PAPER, *ON_A_NODE),
    ],
    ids=["submitting", "node"],
)
def test_parsing_imports_nothing_heavy(snakemake, checkout, flags):
    guard = checkout / "guard"
    guard.mkdir()
    banned = ["torch", "vllm", "transformers", "peft", "sklearn", "matplotlib"]
    (guard / "sitecustomize.py").write_text(
        "import sys\n"
        "class Guard:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name in {banned!r}:\n"
        "            raise AssertionError(f'{name} imported while parsing')\n"
        "sys.meta_path.insert(0, Guard())\n"
    )
    library = Path(lora_spec.__file__).parents[1]
    done = snakemake(*flags, PYTHONPATH=os.pathsep.join([str(guard), str(library)]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (checkout / "results/paper/prompts.json").exists() == ("--mode" in flags)
