"""The set-up builds what the locks say, once, and says in one line what a machine lacks."""

import subprocess

import pytest

LAST_STEP = "pip --no-color install --no-deps --no-build-isolation --editable ."


def _only_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_both_environments_are_built_from_hashed_locks_and_hold_the_project(machine):
    done = machine.set_up("analysis", "serving-cpu")
    assert done.returncode == 0, done.stderr
    calls = machine.take_calls()
    for lock in ("analysis", "serving-cpu"):
        assert any("--require-hashes" in call and f"envs/{lock}.lock" in call for call in calls)
    assert sum(LAST_STEP in call for call in calls) == 2


def test_the_environment_for_gpus_takes_the_place_of_that_for_cpus_and_comes_from_its_own_lock(machine):
    machine.set_up("serving-cpu")
    machine.take_calls()
    done = machine.set_up("serving-gpu")
    assert done.returncode == 0, done.stderr
    calls = machine.take_calls()
    assert any("--require-hashes" in call and "envs/serving-gpu.lock" in call for call in calls)
    assert not any("torch-cpu" in call for call in calls)
    assert (machine.root / ".venv-serving").is_dir()


def test_an_environment_for_gpus_stays_until_that_for_cpus_is_asked_for(machine):
    machine.set_up("serving-gpu")
    machine.take_calls()
    again = machine.set_up("serving")
    assert (again.returncode, again.stderr, machine.take_calls()) == (0, "", [])
    machine.set_up("serving-cpu")
    assert any("envs/serving-cpu.lock" in call for call in machine.take_calls())
    assert machine.set_up("serving").stderr == ""


def test_without_a_word_for_gpus_the_environment_is_that_for_cpus(machine):
    machine.set_up("serving")
    assert any("envs/serving-cpu.lock" in call for call in machine.take_calls())


def test_an_interrupted_environment_for_gpus_is_taken_up_again(machine):
    assert machine.set_up("serving-gpu", FAIL_ON="serving-gpu.lock", FAIL_WITH="connection reset").returncode == 1
    machine.take_calls()
    assert machine.set_up("serving").returncode == 0
    assert any("envs/serving-gpu.lock" in call for call in machine.take_calls())


@pytest.mark.parametrize("fails", ["venv", "rm"])
def test_a_choice_outlives_an_interruption_at_any_time(machine, fails):
    """Of a lock that has changed, when the old environment goes away and the new one is not there yet."""
    machine.set_up("serving-gpu")
    with (machine.root / "envs/serving-gpu.lock").open("a") as lock:
        lock.write("# changed\n")
    command = machine.bin / ("python3.11" if fails == "venv" else "rm")
    kept = command.rename(command.with_name("kept"))
    interrupted = "kill -9 $PPID; sleep 1" if fails == "rm" else 'case "$1" in -m) kill -9 $PPID ;; esac'
    machine.add_command(command.name, f'#!{{bash}}\n{interrupted}\nexec {kept} "$@"\n')
    assert machine.set_up("serving").returncode != 0
    command.unlink()
    kept.rename(command)
    machine.take_calls()
    assert machine.set_up("serving").returncode == 0
    assert any("envs/serving-gpu.lock" in call for call in machine.take_calls())
    assert not (machine.root / ".venv-serving.old").exists()


@pytest.mark.parametrize("text", ["", "serving\n", "nonsense\n"])
def test_a_note_of_what_was_chosen_that_says_nothing_means_the_environment_for_cpus(machine, text):
    machine.set_up("serving-cpu")
    (machine.root / ".venv-serving/.built-as").write_text(text)
    again = machine.set_up("serving")
    assert (again.returncode, again.stderr) == (0, "")


def test_every_phase_is_announced_and_pip_stays_in_the_log(machine):
    lines = machine.set_up("serving-cpu").stderr.splitlines()
    assert all(line.startswith("set-up: .venv-serving: ") for line in lines)
    assert len(lines) == 4
    assert (machine.root / "logs/setup/serving-cpu.log").exists()


def test_a_second_run_does_nothing(machine):
    machine.set_up("analysis", "serving-cpu")
    machine.take_calls()
    again = machine.set_up("analysis", "serving-cpu")
    assert (again.returncode, again.stderr, machine.take_calls()) == (0, "", [])


def test_an_environment_of_conda_is_left_alone_and_needs_no_python_of_ours(machine):
    (machine.root / ".venv/conda-meta").mkdir(parents=True)
    (machine.bin / "python3.11").unlink()
    done = machine.set_up("analysis")
    assert (done.returncode, done.stderr, machine.take_calls()) == (0, "", [])
    assert (machine.root / ".venv/conda-meta").is_dir()


def test_an_interrupted_environment_is_built_anew(machine):
    failed = machine.set_up("analysis", FAIL_ON="analysis.lock", FAIL_WITH="connection reset")
    assert failed.returncode == 1
    (machine.root / ".venv/half").touch()
    machine.take_calls()
    assert machine.set_up("analysis").returncode == 0
    assert not (machine.root / ".venv/half").exists()
    assert any("envs/analysis.lock" in call for call in machine.take_calls())


def test_a_changed_lock_rebuilds_its_own_environment_only(machine):
    machine.set_up("analysis", "serving-cpu")
    machine.take_calls()
    with (machine.root / "envs/analysis.lock").open("a") as lock:
        lock.write("# changed\n")
    machine.set_up("analysis", "serving-cpu")
    calls = machine.take_calls()
    assert any("envs/analysis.lock" in call for call in calls)
    assert not any("serving" in call or "torch" in call for call in calls)


def test_changed_project_metadata_reinstalls_the_project_only(machine):
    machine.set_up("analysis")
    machine.take_calls()
    with (machine.root / "pyproject.toml").open("a") as project:
        project.write("# changed\n")
    machine.set_up("analysis")
    assert [LAST_STEP in call for call in machine.take_calls()] == [True]


def test_a_moved_checkout_is_set_up_anew(machine):
    machine.set_up("analysis")
    machine.take_calls()
    machine.root = machine.root.rename(machine.root.parent / "elsewhere")
    machine.set_up("analysis")
    assert any("envs/analysis.lock" in call for call in machine.take_calls())


def test_torch_comes_from_its_own_index_only_where_the_usual_one_has_none(machine):
    done = machine.set_up(
        "serving-cpu", FAIL_ON="torch-cpu.lock", FAIL_WITH="No matching distribution found for torch==2.13.0+cpu"
    )
    assert done.returncode == 0, done.stderr
    assert "the package index in use has no torch==2.13.0+cpu; taking it from" in done.stderr
    torch_calls = [call for call in machine.take_calls() if "torch-cpu.lock" in call]
    assert ["--index-url" in call for call in torch_calls] == [False, True]


def test_another_failure_of_torch_is_not_taken_for_its_absence(machine):
    done = machine.set_up("serving-cpu", FAIL_ON="torch-cpu.lock", FAIL_WITH="No space left on device")
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert not any("--index-url" in call for call in machine.take_calls())


def test_a_failed_install_shows_the_end_of_its_log_and_where_it_is(machine):
    done = machine.set_up("analysis", FAIL_ON="analysis.lock", FAIL_WITH="hashes do not match")
    assert done.returncode == 1
    assert "installing envs/analysis.lock failed; the last lines of logs/setup/analysis.log:" in done.stderr
    assert "ERROR: hashes do not match" in done.stderr


def test_a_machine_without_python_is_told_what_to_install(machine):
    (machine.bin / "python3.11").unlink()
    done = machine.set_up("analysis")
    assert done.returncode == 2
    assert "apt install python3.11 python3.11-venv" in _only_line(done)


def test_a_machine_without_the_venv_module_is_told_what_to_install(machine):
    done = machine.set_up("analysis", NO_VENV="1")
    assert done.returncode == 2
    assert "apt install python3.11-venv" in _only_line(done)


def test_a_machine_without_a_compiler_is_told_what_to_install(machine):
    (machine.bin / "gcc").unlink()
    done = machine.set_up("serving-cpu")
    assert done.returncode == 2
    assert "apt install gcc" in _only_line(done)
    assert machine.set_up("analysis").returncode == 0


def test_another_platform_is_refused_before_anything_is_built(machine):
    machine.add_command("uname", "#!{bash}\necho Darwin arm64\n")
    done = machine.set_up("analysis")
    assert done.returncode == 2
    assert "this is Darwin arm64" in _only_line(done)
    assert not (machine.root / ".venv").exists()


@pytest.mark.parametrize("names", [(), ("analysys",)])
def test_a_wrong_environment_name_lists_the_right_ones(machine, names):
    done = machine.set_up(*names)
    assert done.returncode == 2
    assert "analysis" in _only_line(done)
    assert "serving-cpu" in done.stderr


def test_an_interpreter_can_be_named_though_there_are_spaces_in_its_path(machine):
    (machine.bin / "my pythons").mkdir()
    named = (machine.bin / "python3.11").rename(machine.bin / "my pythons" / "python")
    assert machine.set_up("analysis", PYTHON=str(named)).returncode == 0


def test_a_wrong_interpreter_that_was_named_is_refused_and_no_other_is_taken(machine):
    done = machine.set_up("analysis", PYTHON="/no/such python")
    assert done.returncode == 2
    assert "PYTHON='/no/such python' is no interpreter of version 3.11" in _only_line(done)
