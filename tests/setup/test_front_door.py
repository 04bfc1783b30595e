"""The Makefile and the CI entry: every target is explained, clean is careful, and exit codes come through."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
MAKE = shutil.which("make")
TARGETS = ("reproduce", "test", "figures", "report", "compare", "cpu", "slurm", "clean", "test-unit", "test-slurm")

needs_make = pytest.mark.skipif(MAKE is None, reason="make is not installed")


def _make(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(MAKE), *words], cwd=root, capture_output=True, text=True, timeout=60, check=False)


@needs_make
def test_help_is_the_default_and_explains_every_target_with_its_time():
    done = _make(REPOSITORY)
    assert done.returncode == 0, done.stderr
    lines = {m[1]: m[2] for m in re.finditer(r"^  make (\S+)\s+(.+)$", done.stdout, re.M)}
    assert set(TARGETS) <= set(lines)
    timeless = {name for name, text in lines.items() if not re.search(r"\d.* (second|minute|hour)s?", text)}
    assert timeless == {"help", "clean", "slurm"}


@needs_make
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_plans(target):
    done = _make(REPOSITORY, "-n", target)
    assert done.returncode == 0, done.stderr


@needs_make
def test_what_a_user_has_set_for_other_projects_does_not_reach_a_run(tmp_path, monkeypatch):
    (tmp_path / "more.mk").write_text("show:\n\t@env\n")
    names = ("SNAKEMAKE_PROFILE", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    for name in names:
        monkeypatch.setenv(name, "mine")
    done = _make(REPOSITORY, "-f", "Makefile", "-f", str(tmp_path / "more.mk"), "show")
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stdout.splitlines() if line.partition("=")[0] in names]


@needs_make
def test_every_script_that_the_front_door_calls_exists():
    called = re.findall(r"(?:scripts|tools)/[\w.]+", (REPOSITORY / "Makefile").read_text())
    assert called
    assert [name for name in called if not (REPOSITORY / name).exists()] == []


@needs_make
def test_clean_removes_results_and_keeps_what_cost_hours_or_is_shipped(tmp_path):
    shutil.copy2(REPOSITORY / "Makefile", tmp_path)
    kept = ["reference/mini/a.json", "resources/trajectories/s.npz", ".venv/bin/python", "results/README.md"]
    gone = ["results/mini/v.json", "results/.hidden", "logs/mini/x.log", ".snakemake/locks/0"]
    for name in (*kept, *gone):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for _ in range(2):
        assert _make(tmp_path, "clean").returncode == 0
        assert [name for name in kept if not (tmp_path / name).exists()] == []
        assert [name for name in gone if (tmp_path / name).exists()] == []


@needs_make
def test_clean_removes_results_that_lie_elsewhere_and_keeps_the_link_to_them(tmp_path):
    """On clusters results is a link to another file system."""
    shutil.copy2(REPOSITORY / "Makefile", tmp_path)
    elsewhere = tmp_path / "scratch"
    (elsewhere / "paper").mkdir(parents=True)
    (tmp_path / "results").symlink_to(elsewhere)
    assert _make(tmp_path, "clean").returncode == 0
    assert list((tmp_path / "results").iterdir()) == []


@pytest.mark.parametrize("status", [0, 1, 2])
def test_ci_passes_on_the_closing_line_and_the_exit_code(machine, status):
    machine.add_command("make", f'#!{{bash}}\necho "make $* CI=$CI"\necho "5 passed in 0.10s"\nexit {status}\n')
    done = machine.run(".ci/run")
    assert done.returncode == status
    assert done.stdout.splitlines() == ["make test CI=true", "5 passed in 0.10s"]


def test_a_default_profile_would_override_the_chosen_one_and_is_not_there():
    assert not (REPOSITORY / "profiles/default").exists()


@pytest.mark.parametrize("profile", sorted(path.name for path in (REPOSITORY / "profiles").iterdir()))
def test_no_profile_asks_for_conda_or_retries_on_one_machine(profile):
    settings = yaml.safe_load((REPOSITORY / "profiles" / profile / "config.yaml").read_text())
    assert "software-deployment-method" not in settings
    assert ("retries" in settings) == ("executor" in settings)
