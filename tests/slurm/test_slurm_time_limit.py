"""A job whose engine hangs: Slurm ends it, and the workflow says so."""

import pytest
from one_node import job_processes

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def ended(cluster, hanging):
    """Return the run of the hanging job once it is over, its exit code, and what Slurm says of the job."""
    code = hanging.wait(timeout_s=240)
    (job,) = hanging.jobs(cluster)
    return hanging, code, job


def test_a_job_that_hangs_is_ended_by_its_time_limit(ended):
    _, _, job = ended
    assert (job["JobState"], job["TimeLimit"]) == ("TIMEOUT", "00:01:00")
    assert [pid for pid, env in job_processes().items() if env.get("SLURM_JOB_ID") == job["JobId"]] == []


def test_a_job_ended_by_its_time_limit_is_reported_with_its_logs(ended):
    run, code, job = ended
    assert code != 0
    assert f"SLURM-job '{job['JobId']}' failed, SLURM status is: 'TIMEOUT'" in run.text
    assert "Error in rule phase1_collect" in run.text
    assert "DUE TO TIME LIMIT" in run.text
    assert "logs/tiny/phase1_collect.log" in run.text
    assert "estimate_acceptance" not in run.finished
