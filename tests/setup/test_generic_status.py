"""The status command of profiles/generic: a job that lives is never taken for a failed one, or it would be doubled."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "profiles/generic/status.sh"


@pytest.fixture
def status(tmp_path):
    def ask(answer, code=0, warning=""):
        squeue = tmp_path / "squeue"
        squeue.write_text(f"#!/bin/sh\necho '{warning}' >&2\necho '{answer}' {'>&2' if code else ''}\nexit {code}\n")
        squeue.chmod(0o755)
        how = {"env": {"PATH": f"{tmp_path}:/usr/bin:/bin"}, "capture_output": True, "text": True, "check": True}
        return subprocess.run(["sh", SCRIPT, "7"], **how).stdout.strip()

    return ask


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "STOPPED", "REQUEUE_HOLD", "STAGE_OUT"])
def test_what_is_not_over_runs(status, state):
    assert status(state) == "running"


def test_what_is_over_has_succeeded_or_failed(status):
    assert status("COMPLETED") == "success"
    assert {status(state) for state in ("FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")} == {"failed"}


def test_a_warning_beside_the_state_is_no_state(status):
    assert status("COMPLETED", warning="squeue: warning: slow") == "success"
    assert status("FAILED", warning="squeue: warning: slow") == "failed"


def test_a_job_that_slurm_has_forgotten_has_failed(status):
    assert status("slurm_load_jobs error: Invalid job id specified", code=1) == "failed"
    assert status("") == "failed"


def test_where_slurm_does_not_answer_the_job_is_not_given_up(status):
    assert status("slurm_load_jobs error: Unable to contact slurm controller", code=1) == "running"
