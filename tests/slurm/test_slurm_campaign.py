"""A campaign of the project's own rules on a real Slurm: submitted, interrupted, killed for memory, and finished."""

import pytest
from one_node import job_processes, wait_for
from tiny_tier import let_others_compute
from workflow_run import WorkflowRun, change_profile

pytestmark = pytest.mark.slurm

SUBMITTED = {"phase1_collect", "profile_cost"}
TARGETS = ("results/tiny/measured.json", "results/tiny/cost_model.json", "results/tiny/features/weak.json")
STAYING = {"freeze_prompts", "extract_features", "estimate_acceptance", "fit_cost_model"}
RECORDS = "resources/records/tiny"


def _records(checkout):
    return {path.name: path.stat().st_mtime_ns for path in (checkout / RECORDS).glob("*.parquet")}


@pytest.fixture(scope="module")
def interrupted(cluster, hanging, checkout):
    """Return a run that was interrupted with both jobs running, what ran in them, and the records it had by then.

    The timing job waits, since the counting one computes: it cannot be over first.
    """
    run = WorkflowRun(checkout, *TARGETS)
    programs = {}

    def is_far_enough():
        assert run.process.poll() is None, run.text
        for rule in SUBMITTED:
            programs[rule] = run.programs(rule) or programs.get(rule, [])
        return all(programs.values()) and _records(checkout)

    try:
        wait_for(is_far_enough, "both jobs running and a first record", timeout_s=180)
        code = run.interrupt()
    finally:
        run.end()
    return run, code, programs, _records(checkout)


@pytest.fixture(scope="module")
def resumed(cluster, interrupted, checkout):
    """Return the run after it: one job gets too little memory at first, and the other all that it needs."""
    let_others_compute(checkout)
    # An engine of this pair takes 0.7 GB before its KV cache of 1 GiB, and 1.9 GB with it.
    change_profile(checkout, "phase1_collect", mem_mb="1200 * attempt")
    run = WorkflowRun(checkout, *TARGETS)
    try:
        code = run.wait(timeout_s=300)
    finally:
        run.end()
    return run, code, run.jobs(cluster)


def test_two_jobs_at_once_see_a_device_each(interrupted):
    _, _, programs, _ = interrupted
    (counting,), (timing,) = programs["phase1_collect"], programs["profile_cost"]
    assert counting.slurm_job != timing.slurm_job
    assert {counting.device, timing.device} == {"0", "1"}


def test_submitted_rules_run_in_the_serving_environment(interrupted):
    _, _, programs, _ = interrupted
    assert {program.python for found in programs.values() for program in found} == {".venv-serving/bin/python"}


def test_an_interrupted_run_leaves_nothing_in_the_queue_and_no_process(cluster, interrupted):
    run, code, _, _ = interrupted
    assert code != 0
    jobs = set(run.submitted)
    assert len(jobs) == 2
    wait_for(lambda: not jobs & set(cluster.queue()), "the queue to be empty", timeout_s=20)
    states = {job["JobId"]: job["JobState"] for job in run.jobs(cluster)}
    assert set(states.values()) == {"CANCELLED"}
    assert [pid for pid, env in job_processes().items() if env.get("SLURM_JOB_ID") in jobs] == []


def test_the_next_run_goes_on_where_it_was_interrupted(interrupted, resumed, checkout):
    before, _, _, records = interrupted
    after, code, _ = resumed
    assert code == 0, after.text
    assert "freeze_prompts" in before.finished
    assert not before.finished & after.finished
    now = _records(checkout)
    assert records
    assert {name: now[name] for name in records} == records


def test_only_rules_that_want_a_device_are_submitted(interrupted, resumed):
    runs, (_, _, jobs) = (interrupted[0], resumed[0]), resumed
    assert {job["Comment"].partition("_wildcards_")[0] for job in jobs} == {f"rule_{rule}" for rule in SUBMITTED}
    assert len(jobs) == len(resumed[0].submitted) == 3
    finished = runs[0].finished | runs[1].finished
    assert finished == SUBMITTED | STAYING


def test_a_run_completes_where_nothing_is_accounted(resumed, checkout):
    run, code, jobs = resumed
    assert code == 0, run.text
    assert all((checkout / target).exists() for target in TARGETS)
    assert [job["JobState"] for job in jobs].count("COMPLETED") == 2
    assert "Falling back to 'sacct'" not in run.text


def test_a_job_killed_for_memory_is_submitted_anew_with_more_memory_and_time(cluster, resumed):
    _, _, jobs = resumed
    first, second = [job for job in jobs if job["Comment"].startswith("rule_phase1_collect")]
    assert first["JobId"] != second["JobId"]
    assert (first["JobState"], second["JobState"]) == ("FAILED", "COMPLETED")
    assert (first["MinMemoryNode"], second["MinMemoryNode"]) == ("1200M", "2400M")
    assert (first["TimeLimit"], second["TimeLimit"]) == ("00:03:00", "00:06:00")


def test_a_job_gets_the_processors_that_its_rule_asks_for(resumed):
    assert {job["NumCPUs"] for job in resumed[2]} == {"2"}


def test_the_logs_of_a_killed_job_are_kept_and_shown(resumed, checkout):
    run, _, jobs = resumed
    killed = next(job["JobId"] for job in jobs if job["JobState"] == "FAILED")
    kept = {path.stem: path for path in (checkout / "logs" / "slurm").rglob("*.log")}
    assert set(run.submitted) <= set(kept)
    assert f"StepId={killed}.0 exceeded memory limit" in kept[killed].read_text()
    assert f"StepId={killed}.0 exceeded memory limit" in run.text
    assert "Logfile logs/tiny/phase1_collect.log:\n" in run.text
    assert f"Logfile {kept[killed]}:\n" in run.text
    assert (checkout / "logs" / "tiny" / "phase1_collect.log").stat().st_size > 0
