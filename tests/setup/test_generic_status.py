"""The commands of profiles/generic: a job that lives is never taken for a failed one, or it would be doubled."""

import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

PROFILE = Path(__file__).parents[2] / "profiles/generic"


def _run(path, script, *words):
    how = {"env": {"PATH": str(path)}, "capture_output": True, "text": True, "check": False}
    return subprocess.run([shutil.which("sh"), PROFILE / script, *words], **how)


@pytest.fixture
def path(tmp_path):
    """Return a folder for the only commands that there are; squeue and scancel are not among them."""
    (tmp_path / "sed").symlink_to(shutil.which("sed"))
    return tmp_path


def _add(path, name, text):
    (path / name).write_text(f"#!{shutil.which('sh')}\n{text}\n")
    (path / name).chmod(0o755)


@pytest.fixture
def status(path):
    def ask(answer, code=0, warning="", job="7"):
        log = f'echo "$*" >>{path}/asked'
        _add(path, "squeue", f"{log}\necho '{warning}' >&2\necho '{answer}' {'>&2' if code else ''}\nexit {code}")
        done = _run(path, "status.sh", job)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

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


@pytest.mark.parametrize("state", ["CANCELLED by 0", "CANCELLED+", "NODE_FAIL ", "OUT_OF_MEMORY"])
def test_what_is_said_behind_a_state_does_not_hide_it(status, state):
    assert status(state) == "failed"


def test_a_job_of_another_cluster_is_asked_for_there(status, path):
    """sbatch --parsable says so, and squeue then names the cluster in a line of its own."""
    assert status("CLUSTER: far\nRUNNING", job="123;far") == "running"
    assert status("CLUSTER: far\nCOMPLETED", job="123;far") == "success"
    assert status("CLUSTER: far", job="123;far") == "failed"
    words = (path / "asked").read_text().splitlines()[-1].split()
    assert {"--clusters=far", "--jobs=123"} <= set(words)


def test_where_nobody_can_be_asked_the_run_ends_and_no_job_is_given_up(path):
    done = _run(path, "status.sh", "7")
    assert (done.returncode, done.stdout) == (1, "")
    assert "squeue is not on the path" in done.stderr


@pytest.mark.parametrize("job", ["", "None", "Submitted batch job 7", ";far", "7 8"])
def test_what_is_no_id_ends_the_run_and_is_no_failed_job(path, job):
    _add(path, "squeue", "echo 'squeue: error: Invalid job id: None' >&2; exit 1")
    done = _run(path, "status.sh", job)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is no id of a job" in done.stderr


def test_all_jobs_are_cancelled_each_on_its_cluster_and_those_of_this_one_at_once(path):
    _add(path, "scancel", f'echo "$*" >>{path}/asked')
    assert _run(path, "cancel.sh", "1", "2;far", "3").returncode == 0
    assert sorted((path / "asked").read_text().splitlines()) == ["--clusters=far 2", "1 3"]
    (path / "asked").unlink()
    _run(path, "cancel.sh", "2;far")
    assert (path / "asked").read_text() == "--clusters=far 2\n"


def test_the_profile_names_commands_that_can_be_run():
    text = (PROFILE / "config.yaml").read_text()
    for name in ("status", "cancel"):
        assert f"cluster-generic-{name}-cmd: profiles/generic/{name}.sh\n" in text
        assert (PROFILE / f"{name}.sh").stat().st_mode & 0o111


def _submit_commands():
    """Return the submit commands of the profile and of the guide's table, by the program that takes the job."""
    guide = (PROFILE.parents[1] / "docs/cluster.md").read_text()
    cells = [
        line.split(" | ")[1].strip("`").replace("\\|", "|")
        for line in re.findall(r"^\| (?:PBS|LSF) \| .*", guide, re.M)
    ]
    commands = [yaml.safe_load((PROFILE / "config.yaml").read_text())["cluster-generic-submit-cmd"], *cells]
    return {re.search(r"sbatch|qsub|bsub", command)[0]: command for command in commands}


@pytest.mark.parametrize(
    ("program", "says", "job"),
    [
        ("sbatch", "123", "123"),
        ("qsub", "123.server", "123.server"),
        ("bsub", "Job <123> is submitted to queue <gpu>.", "123"),
    ],
)
def test_a_submit_command_hands_over_the_script_and_prints_the_id_first(path, program, says, job):
    resources = SimpleNamespace(gpu=1, mem_mb=1000, runtime=60)
    command = _submit_commands()[program].replace(" ...", "").format(rule="a_rule", threads=2, resources=resources)
    for tool in ("mkdir", "grep", "head", "sh"):
        (path / tool).symlink_to(shutil.which(tool))
    _add(path, program, f"for word; do echo \"$word\" >>{path}/asked; done\necho '{says}'")
    # As the plugin does.
    done = subprocess.run(
        f'{command} "{path}/a job.sh"',
        shell=True,
        cwd=path,
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[0] == job
    assert (path / "asked").read_text().splitlines()[-1] == f"{path}/a job.sh"
