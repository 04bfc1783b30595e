"""Conda files, container recipes, Makefile and set-up build from the same locks, and none of them names a version."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
ENVS = REPOSITORY / "envs"
DOCKERFILE = (ENVS / "Dockerfile").read_text()
APPTAINER = (ENVS / "apptainer.def").read_text()
RECIPES = {"Dockerfile": DOCKERFILE, "apptainer.def": APPTAINER}
SET_UP = (REPOSITORY / "tools/setup_env.sh").read_text()
CHOICES = re.findall(r"^    ([a-z-]+)\) venv=", SET_UP, re.M)


def _code(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def _section(name: str) -> list[str]:
    body = re.search(rf"^%{name}\n((?:    .*\n|\n)*)", APPTAINER, re.M)
    assert body is not None, name
    return [line.strip() for line in body[1].splitlines() if line.strip()]


def _pinned_python(name: str) -> str:
    found = re.search(r"CPython (3\.\d+)", (ENVS / f"{name}.lock").read_text())
    assert found is not None
    return found[1]


@pytest.mark.parametrize("path", sorted(ENVS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_conda_file_takes_python_from_conda_and_every_package_from_the_lock_of_its_name(path):
    dependencies = yaml.safe_load(path.read_text())["dependencies"]
    assert dependencies == [f"python={_pinned_python(path.stem)}", "pip", {"pip": [f"-r {path.stem}.lock"]}]


def test_there_is_a_conda_file_for_each_lock_that_is_whole_by_itself():
    """The CPU build of vLLM asks for packages that its lock leaves out, and pip would refuse it with them."""
    locks = {path.stem for path in ENVS.glob("*.lock")} - {"serving-cpu", "torch-cpu"}
    assert {path.stem for path in ENVS.glob("*.yaml")} == locks


def test_every_lock_is_installed_by_the_set_up_script():
    assert set(re.findall(r"envs/([a-z-]+)\.lock", SET_UP)) == {path.stem for path in ENVS.glob("*.lock")}
    assert sorted(CHOICES) == ["analysis", "serving-cpu", "serving-gpu"]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_builds_the_environments_by_the_set_up_script_and_names_no_version(name):
    code = _code(RECIPES[name])
    (words,) = re.findall(r"bash tools/setup_env\.sh (.*)$", code, re.M)
    assert re.fullmatch(r'analysis "(\$SERVING|\{\{ SERVING \}\})"', words)
    (default,) = set(re.findall(r"SERVING=([a-z-]+)", code))
    # Where nobody has chosen before, make asks for the same: the name serving stands for it.
    assert "SERVING ?= serving\n" in (REPOSITORY / "Makefile").read_text()
    assert re.search(rf"^    \*\) echo {default} ;;$", SET_UP, re.M)
    assert default in CHOICES
    assert not re.search(r"==|pip install|conda", code)


def test_both_recipes_and_the_workflow_start_from_one_image_with_the_python_of_the_locks():
    images = re.findall(r"^(?:FROM|From:) (\S+)", DOCKERFILE + APPTAINER, re.M)
    images += re.findall(r'^container: "docker://(\S+)"', (REPOSITORY / "Snakefile").read_text(), re.M)
    assert len(images) == 3
    assert len(set(images)) == 1
    assert re.match(rf"python:{re.escape(_pinned_python('analysis'))}-", images[0])


def test_both_recipes_install_the_same_packages_of_the_system_and_all_that_the_readme_asks_for():
    found = [re.findall(r"--no-install-recommends ([a-z0-9 -]+)", text) for text in RECIPES.values()]
    docker, apptainer = ([set(words.split()) for words in lists] for lists in found)
    assert docker == apptainer
    asked = re.search(r"apt install ([a-z0-9. -]+)`", (REPOSITORY / "README.md").read_text())
    assert asked is not None
    # The image is Python's own: its venv module comes with it.
    assert {name for name in asked[1].split() if not name.startswith("python")} <= docker[0]


def test_both_recipes_take_along_all_that_the_repository_holds():
    tracked = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    tops = {line.split("/")[0] for line in tracked.stdout.splitlines()}
    wanted = {name for name in tops if not name.startswith(".")} - {"results"}
    copied = dict(line.split() for line in _section("files"))
    assert set(copied) == wanted
    assert all(target == f"/opt/lora-spec/{source}" for source, target in copied.items())
    assert "COPY . .\n" in DOCKERFILE
    sources = [word for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.M) for word in line.split()[:-1]]
    assert all((REPOSITORY / source).exists() for source in sources)


def test_a_build_leaves_environments_results_and_caches_at_home():
    ignored = set((REPOSITORY / ".dockerignore").read_text().splitlines())
    for line in (REPOSITORY / ".gitignore").read_text().splitlines():
        assert {line, line.rstrip("/"), f"**/{line.rstrip('/')}", f"**/{line}"} & ignored, line
    assert ".git" in ignored
