"""The command line around inspection: exit codes, what goes where, fleets, runtimes, hostile text."""

import json
import math
import subprocess
import sys

import build_adapter_cases as kit
import numpy as np
import pytest
from adapter_cases import P, plain, sharded, values

from lora_spec.adapter import Inspection
from lora_spec.adapter.codes import CODES
from lora_spec.cli import fleet
from lora_spec.cli.main import COMMANDS, main
from lora_spec.errors import ConfigError


@pytest.fixture
def run(capsys):
    def go(*words):
        code = main(["inspect", *map(str, words)])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()], captured.err

    return go


@pytest.fixture
def three(tmp_path):
    """An ok, an abstaining and a wrong adapter."""
    return plain(tmp_path / "a_ok"), plain(tmp_path / "b_dora", use_dora=True), plain(tmp_path / "c_wrong", r=0)


def test_text_goes_to_stderr_and_json_only_when_asked_for(run, three):
    code, reports, text = run(three[0])
    assert (code, reports) == (0, [])
    assert "ok" in text


@pytest.mark.parametrize(("picked", "code"), [((0,), 0), ((0, 1), 3), ((1, 2), 2), ((2, 0), 2)])
def test_the_worst_adapter_decides_the_exit_code(run, three, picked, code):
    assert run(*(three[i] for i in picked))[0] == code


def test_a_fleet_gives_one_line_for_each_adapter_in_order(run, three, tmp_path):
    code, reports, text = run("--recursive", tmp_path)
    assert code == 2
    assert [report["status"] for report in reports] == ["ok", "abstain", "error"]
    assert [report["path"] for report in reports] == [str(path) for path in three]
    assert "3 adapters: 1 ok, 1 abstain, 1 error" in text


def test_parallel_processes_give_the_same_answers_in_the_same_order(run, tmp_path):
    for index in range(12):
        plain(tmp_path / f"{index:02d}", lora_alpha=index + 1, use_dora=index == 5)
    alone = run("--recursive", tmp_path, "--jobs", 1)
    assert run("--recursive", tmp_path, "--jobs", 2) == alone
    assert alone[0] == 3


def test_a_process_that_dies_does_not_stop_the_rest(tmp_path, monkeypatch):
    paths = [plain(tmp_path / f"{index:02d}") for index in range(10)]
    monkeypatch.setattr(fleet, "_FEW", 0)
    answers = list(fleet.inspect_many(paths, fleet.Options(runtime=DyingRuntime(paths[4].name)), 2))
    assert [answer.data["status"] for answer in answers] == ["ok"] * 4 + ["error"] + ["ok"] * 5
    assert "died" in answers[4].data["message"]


class DyingRuntime(str):
    """Stands for a runtime; looking it up kills the process that inspects one adapter."""

    def __hash__(self):
        import inspect
        import os

        for frame in inspect.stack():
            inspection = frame.frame.f_locals.get("inspection")
            if inspection is not None and inspection.path.name == str(self):
                os._exit(1)
        return hash("peft")

    def __eq__(self, other):
        return other == "peft"


def test_a_fault_of_our_own_becomes_an_answer(three, monkeypatch):
    monkeypatch.setattr(fleet, "inspect_adapter", lambda *_, **__: 1 / 0)
    answer = fleet.inspect_one(three[0], fleet.Options())
    assert answer.data["status"] == "error"
    assert "ZeroDivisionError" in answer.data["message"]


def test_a_folder_without_adapters_is_told(run, tmp_path):
    code, reports, _ = run("--recursive", tmp_path)
    assert code == 2
    assert reports[0]["codes"] == ["E_NOT_ADAPTER"]


def test_links_to_folders_are_not_followed_but_told(run, three, tmp_path):
    (tmp_path / "a_ok" / "again").symlink_to(tmp_path)
    (tmp_path / "zz").symlink_to("/")
    _, reports, text = run("--recursive", tmp_path)
    assert len(reports) == 3
    assert "zz: passed over: is a link" in text
    assert "1 error; 2 folders passed over" in text


def test_a_folder_to_search_may_itself_be_a_link(run, three, tmp_path):
    root = tmp_path.parent / f"{tmp_path.name}_link"
    root.symlink_to(tmp_path)
    assert len(run("--recursive", root)[1]) == 3


def test_a_folder_that_bears_the_name_of_the_weights_is_no_adapter_above_it(run, tmp_path):
    plain(tmp_path / "checkpoint-100" / "adapter_model")
    (tmp_path / "checkpoint-100" / "adapter_model_notes.md").write_text("")
    code, reports, _ = run("--recursive", tmp_path)
    assert (code, len(reports)) == (0, 1)


def test_a_folder_with_gguf_alone_and_one_too_deep_are_told(run, tmp_path):
    plain(tmp_path / "a")
    plain(tmp_path.joinpath(*"d" * 40))
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "lora.gguf").write_bytes(b"GGUF")
    code, reports, text = run("--recursive", tmp_path)
    assert (code, len(reports)) == (0, 1)
    assert "GGUF files only" in text
    assert "deeper than 32 levels" in text
    assert "2 folders passed over" in text


@pytest.mark.parametrize(
    "fault", [OverflowError("too large"), MemoryError(), ConfigError("odd"), np.linalg.LinAlgError()]
)
def test_no_exception_of_one_folder_stops_the_rest(run, three, monkeypatch, fault):
    inspect = fleet.inspect_adapter

    def fail_once(path, **options):
        if path == three[1]:
            raise fault
        return inspect(path, **options)

    monkeypatch.setattr(fleet, "inspect_adapter", fail_once)
    _, reports, _ = run(*three)
    assert [report["status"] for report in reports] == ["ok", "error", "error"]
    assert set(reports[1]["codes"]) <= set(CODES)


def test_a_number_that_json_cannot_hold_is_that_folders_error(run, three, monkeypatch):
    monkeypatch.setattr(Inspection, "total_fro_norm", property(lambda self: math.inf))
    code, reports, text = run(*three)
    assert code == 2
    assert [report["codes"] for report in reports[:2]] == [["E_NONFINITE"]] * 2
    assert "Traceback" not in text


def test_a_norm_that_overflows_beside_the_base_is_that_folders_error(run, tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    name = next(iter(kit.standard()))
    (base / "model.safetensors").write_bytes(kit.pack({f"{name}.weight": values(16, 16)}))
    folders = plain(tmp_path / "a", lora_alpha=1e200), plain(tmp_path / "b")
    code, reports, _ = run(*folders, "--base", base)
    assert code in (0, 2)
    assert reports[1]["status"] == "ok"


def test_a_base_that_cannot_be_read_is_wrong_usage(three, tmp_path, capsys):
    assert main(["inspect", *map(str, three), "--base", str(tmp_path / "gone")]) == 2
    assert capsys.readouterr().out == ""


def test_header_only_gives_ranks_and_scales_but_no_norms(run, three):
    code, reports, _ = run("--json", "--header-only", three[0])
    assert (code, reports[0]["header_only"]) == (0, True)
    module = reports[0]["adapter"]["modules"][0]
    assert (module["rank"], module["scale"]) == (4, 2.0)
    assert "fro_norm" not in module


def test_header_only_does_not_import_numpy(three):
    code = (
        "import sys; from lora_spec.cli.main import main; "
        f"assert main(['inspect', '--json', '--header-only', {str(three[0])!r}]) == 0; "
        "assert 'numpy' not in sys.modules and 'pydantic' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_help_imports_no_subcommand():
    code = (
        "import sys; from lora_spec.cli.main import main; "
        "assert main(['--help']) == 0; assert not [m for m in sys.modules if m.startswith('lora_spec.adapter')]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    "words",
    [[], ["nonsense"], ["inspect"], ["inspect", "--runtime", "x", "y"], ["inspect", "x", "--jobs", "0"]],
)
def test_wrong_usage_exits_with_2(words, capsys):
    assert main(words) == 2
    assert "usage" in capsys.readouterr().err


def test_a_closed_pipe_is_no_fault(three):
    command = f"{sys.executable} -m lora_spec.cli.main inspect --json {three[0]} | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr.count("\n") <= 1
    assert "Traceback" not in done.stderr


def test_control_characters_in_a_path_or_config_are_escaped(run, tmp_path):
    folder = plain(tmp_path / "red\x1b[31m\x7f\u202e", peft_type="\x1b[2J\x9b\u2066")
    code, reports, text = run("--json", folder)
    assert code == 2
    for shown in (text, reports[0]["message"], reports[0]["path"]):
        assert all(character.isprintable() or character in "\n" for character in shown)


def test_a_path_that_is_not_unicode_is_told(run, tmp_path):
    folder = plain(tmp_path / "odd\udce9")
    assert run("--json", folder)[0] == 0


# ---- what servers would really apply


@pytest.mark.parametrize(
    ("runtime", "ratio"), [("peft", 1.0), ("vllm", 1.0), ("lorax", 1.0), ("sglang", 0.5), ("llama.cpp", 0.5)]
)
def test_rslora_is_weaker_where_it_is_not_read(run, tmp_path, runtime, ratio):
    folder = plain(tmp_path / "a", use_rslora=True)
    served = run("--json", "--runtime", runtime, folder)[1][0]["served"]
    assert served["total_fro_norm"] == pytest.approx(ratio * served["intended_fro_norm"])
    assert served["is_as_intended"] == (ratio == 1)
    assert runtime == "lorax" or bool(served["warnings"]) == (ratio != 1)


def test_llama_cpp_takes_one_alpha_and_reads_zero_as_scale_one(run, tmp_path):
    patterned = plain(tmp_path / "a", alpha_pattern={"q_proj": 32})
    served = run("--json", "--runtime", "llama.cpp", patterned)[1][0]["served"]
    assert {(m["intended_scale"], m["served_scale"]) for m in served["modules"]} == {(8.0, 2.0)}
    zero = run("--json", "--runtime", "llama.cpp", plain(tmp_path / "b", lora_alpha=0))[1][0]["served"]
    assert {m["served_scale"] for m in zero["modules"]} == {1.0}
    assert zero["total_fro_norm"] is None


@pytest.mark.parametrize(
    "build",
    [
        lambda f: plain(f, use_dora=True),
        lambda f: plain(f, modules_to_save=["lm_head"]),
        lambda f: plain(f, init_lora_weights="pissa"),
        lambda f: plain(f, bias="all"),
        lambda f: plain(f, tensors={f"{P}model.rotary_emb.inv_freq": values(4)}),
        lambda f: sharded(f, {"adapter_model-00001-of-00001.safetensors": ["layers"]}),
    ],
)
def test_vllm_refuses_what_it_cannot_serve(run, tmp_path, build):
    served = run("--json", "--runtime", "vllm", build(tmp_path / "a"))[1][0]["served"]
    assert not served["is_loaded"]
    assert served["total_fro_norm"] == 0


def test_peft_skips_names_that_it_does_not_know(run, tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    kit.write_adapter(folder, kit.name_tensors(kit.standard(), prefix="", infix=".default"), kit.settings())
    served = run("--json", "--runtime", "peft", folder)[1][0]["served"]
    assert (served["num_modules_applied"], served["total_fro_norm"]) == (0, 0)


def test_lorax_drops_a_module_type_that_one_layer_lacks(run, tmp_path):
    modules = kit.standard()
    del modules["model.layers.1.self_attn.v_proj"]
    served = run("--json", "--runtime", "lorax", plain(tmp_path / "a", modules=modules))[1][0]["served"]
    assert served["num_modules_applied"] == 2
    assert any("v_proj" in warning for warning in served["warnings"])
