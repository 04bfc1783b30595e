"""Scripts given what they should not be given: one line, the right exit code, nothing half written."""

import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from adapter_folders import write_adapter, write_cost_model

from lora_spec.cli.policy_result import read_policy_result
from lora_spec.config import load_tier
from lora_spec.errors import ResultError
from lora_spec.results import write_result

ROOT = Path(__file__).parents[2]
TIER = load_tier(ROOT, "mini")
CELL = {"num_speculative_tokens": 0, "batch_size": 1, "trial": 0, "lora_rank": 8, "num_context_tokens": 64}
CELL |= {"step_ms": [10.0], "load_before": 0.0, "load_after": 0.0}
FIT = json.dumps({"num_uncertainty_draws": 20, "seed": 0})
ENGINE = {"vllm": "0.32.0", "dtype": "bfloat16"}
NAMES = json.dumps({**ENGINE, "target": "t", "drafter": "d"})


@pytest.fixture
def run(monkeypatch, capsys):
    def _run(script, *words) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [f"{script}.py", *map(str, words)])
        code = 0
        try:
            runpy.run_path(str(ROOT / "scripts" / f"{script}.py"), run_name="__main__")
        except SystemExit as leaving:
            code = leaving.code or 0
        out, err = capsys.readouterr()
        return code, out + err

    return _run


def _cells():
    sizes = [
        {"num_speculative_tokens": k, "batch_size": b, "trial": t} for k in (0, 1) for b in (1, 8) for t in range(3)
    ]
    return [{**CELL, **size} for size in sizes]


def _step_times(path, payload, evidence="measured"):
    write_result(path, kind="step_time_cells", evidence=evidence, tier="mini", provenance={}, payload=payload)
    return path


def _fit(run, tmp_path, payload, settings=FIT, output="c.json"):
    path = _step_times(tmp_path / "s.json", payload)
    words = (
        "--step-times",
        path,
        "--settings",
        settings,
        "--engine",
        NAMES,
        "--tier",
        "mini",
        "--output",
        tmp_path / output,
    )
    return run("fit_cost_model", *words)


def test_a_sound_run_leaves_with_0(run, tmp_path):
    assert _fit(run, tmp_path, {"cells": _cells(), "engine": ENGINE}) == (0, "")


BAD_CELLS = {"text": {"batch_size": "1"}, "bool": {"trial": True}, "half": {"trial": 0.5}, "extra": {"x": 1}}
BAD_CELLS |= {"no time": {"step_ms": [0.0]}, "no steps": {"step_ms": []}, "null": {"step_ms": None}}
BAD_PAYLOADS = {"null": None, "list": [], "empty": {}, "no cells": {"cells": [], "engine": ENGINE}}
BAD_PAYLOADS |= {
    "extra key": {"cells": _cells(), "engine": ENGINE, "x": 1},
    "engine": {"cells": _cells(), "engine": []},
}
BAD_PAYLOADS |= {"trial": {"cells": _cells()[:-1], "engine": ENGINE}}
BAD_PAYLOADS |= {name: {"cells": [*_cells()[1:], {**CELL, **bad}], "engine": ENGINE} for name, bad in BAD_CELLS.items()}


@pytest.mark.parametrize("payload", BAD_PAYLOADS.values(), ids=BAD_PAYLOADS)
def test_a_good_envelope_with_a_bad_payload_is_wrong_input_and_names_the_file(run, tmp_path, payload):
    code, text = _fit(run, tmp_path, payload)
    assert code == 2
    assert str(tmp_path / "s.json") in text
    assert len(text.splitlines()) == 1
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize(
    "settings",
    ["null", "[]", "{}", "{", "NaN", '"x"', '{"seed": 0, "num_uncertainty_draws": "2"}', f'{FIT[:-1]}, "x": 1}}'],
)
def test_a_json_flag_of_another_shape_is_one_line_that_names_the_flag(run, tmp_path, settings):
    code, text = _fit(run, tmp_path, {"cells": _cells(), "engine": ENGINE}, settings)
    assert code == 2
    assert text.startswith("fit_cost_model.py: --settings: ")
    assert len(text.splitlines()) == 1


def test_the_configs_own_blocks_are_what_the_flags_take(run, tmp_path):
    assert run("freeze_prompts", "--settings", "{}", "--tier", "mini", "--output", tmp_path / "p.json")[0] == 2
    row = TIER.adapter_pool.find(TIER.adapter_pool.names[0]).to_dict() | {"rnk": 8}
    words = ("--base-model-name", "b", "--target", tmp_path, "--output", tmp_path / "a", "--row", json.dumps(row))
    code, text = run("train_adapter", *words)
    assert code == 2
    assert "--row: " in text


@pytest.mark.parametrize("output", ["s.json/c.json", "folder", "x" * 300, "fifo"])
def test_an_output_that_cannot_be_is_wrong_input(run, tmp_path, output):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    code, text = _fit(run, tmp_path, {"cells": _cells(), "engine": ENGINE}, output=output)
    assert code == 2
    assert len(text.splitlines()) == 1


def test_a_missing_folder_is_wrong_input(run, tmp_path):
    words = ("--settings", TIER.models.primary.drafter.source.to_dict(), "--layers", "x", "--output", tmp_path / "o")
    words = [json.dumps(word) if isinstance(word, dict) else word for word in words]
    code, text = run("assemble_drafter", "--target", tmp_path / "none", *words)
    assert (code, "no such folder" in text) == (2, True)


def test_a_package_of_the_serving_environment_is_named_with_its_interpreter(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lora_spec.training.drafter", None)

    def missing(*_):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("lora_spec.cli.script.existing_folder", missing)
    code, text = run("assemble_drafter", "--target", tmp_path)
    assert code == 2
    assert ".venv-serving/bin/python" in text


@pytest.mark.parametrize("name", ["../x", "/etc/x", "", "a/b", "a b", "x" * 121, "-x", "x\n"])
def test_a_name_that_would_leave_the_folder_is_refused(run, tmp_path, name):
    adapter = write_adapter(tmp_path / "adapter", 0.3, seed=0)
    words = ("--adapter", adapter, f"--name={name}", "--tier", "mini", "--output", tmp_path / "f.json")
    code, text = run("extract_features", *words)
    assert (code, len(text.splitlines())) == (2, 1)


@pytest.mark.parametrize("stem", ["", "/", "tables/", "..", "."])
def test_a_stem_without_a_name_is_refused(run, stem):
    assert run("write_verdict_table", "--table", "none.csv", "--stem", stem)[0] == 2


def test_evidence_of_another_class_is_refused(run, tmp_path):
    path = _step_times(tmp_path / "s.json", {"cells": _cells(), "engine": ENGINE}, "synthetic-smoke")
    words = ("--step-times", path, "--settings", FIT, "--tier", "mini", "--output", tmp_path / "c.json")
    assert run("fit_cost_model", *words)[0] == 2


@pytest.mark.parametrize(
    ("closed", "code"), [("2>&-", 2), ("2>/dev/full", 2), (">&-", 1), (">/dev/full", 1)], ids=["2-", "2f", "1-", "1f"]
)
def test_a_broken_stderr_costs_no_answer_and_a_broken_stdout_is_a_failure(tmp_path, closed, code):
    words = f"{sys.executable} -m lora_spec.cli.main inspect --json {tmp_path} {closed}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr
    if closed.startswith("2"):
        assert json.loads(done.stdout)["status"] == "error"


@pytest.mark.parametrize("target", ["predictor", "cost-model", "gate"])
def test_diagnose_never_waits_on_a_fifo(tmp_path, target):
    from lora_spec.cli.main import main

    os.mkfifo(tmp_path / "fifo")
    flags = {"predictor": tmp_path / "none", "cost-model": write_cost_model(tmp_path), target: tmp_path / "fifo"}
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout):
        code = main(["diagnose", str(tmp_path), *(f"--{name}={path}" for name, path in flags.items())])
    assert code == 2
    assert json.loads(stdout.getvalue())["status"] == "error"


def test_an_interrupt_is_one_line(run, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lora_spec.cli.script.existing_folder", interrupt)
    code, text = run("assemble_drafter", "--target", tmp_path)
    assert code == 130
    assert text.startswith("assemble_drafter.py: interrupted")
    assert len(text.splitlines()) == 1


FEATURES, COUNTS = (ROOT / "reference" / "mini" / part for part in ("features/sql.json", "acceptance/sql.parquet"))
PAIR = {"target_model": "t", "draft_model": "d", "engine": "e"}
FITTED = {"gate": TIER.gate.to_dict(), "domains": {"sql": "sql"}, "context": PAIR}
ONE = ("--features", FEATURES, "--records", COUNTS, "--tier", "mini")


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "", "two", "9999999", "\u0663"])
@pytest.mark.parametrize(
    ("script", "flag"),
    [
        ("phase3_predictor", "--threads"),
        ("compare_predictors", "--threads"),
        ("hold_out_families", "--threads"),
        ("phase5_serving", "--threads"),
        ("base_profile", "--num-threads"),
        ("train_adapter", "--num-threads"),
        ("calibration_probe", "--num-prompts"),
    ],
)
def test_a_number_of_things_that_is_none_is_wrong_input(run, script, flag, number):
    code, told = run(script, f"{flag}={number}")
    assert code == 2
    assert "must be a whole number from 1" in told


def test_a_kept_fit_that_is_neither_of_both_is_named(run, tmp_path):
    flags = ("--settings", json.dumps(FITTED), "--output-dir", tmp_path, "--kept", tmp_path / "else.json")
    code, told = run("phase3_predictor", *ONE, *flags)
    assert (code, "else.json: is neither predictor.json nor predictions.json" in told) == (2, True)


@pytest.mark.parametrize("text", ["[1]", "{}", "7", "null", '{"payload": 1}'])
@pytest.mark.parametrize("script", ["compare_predictors", "hold_out_families"])
def test_step_times_that_are_no_result_are_refused_before_their_digest_is_taken(run, tmp_path, script, text):
    (tmp_path / "x.json").write_text(text)
    flags = {
        "compare_predictors": {"setup": "s"},
        "hold_out_families": {"families": {}},
    }[script]
    settings = json.dumps({**FITTED, "scored": ["sql"], **flags})
    others = {
        "compare_predictors": ("--figure-table", tmp_path / "f.csv"),
        "hold_out_families": ("--certification", tmp_path / "x.json", "--predictions", tmp_path / "x.json"),
    }[script]
    code, told = run(
        script, *ONE, "--settings", settings, "--cost-model", tmp_path / "x.json", "--output", tmp_path / "o", *others
    )
    assert (code, "x.json: not a result envelope" in told) == (2, True)


def _ship(run, folder, monkeypatch, *names):
    monkeypatch.chdir(folder)
    return run("ship_records", "--tier", "mini", "--names", *names)


@pytest.fixture
def measured(tmp_path):
    for part, suffix in (("features", "json"), ("acceptance", "parquet")):
        (tmp_path / "results" / "mini" / part).mkdir(parents=True)
        for name, other in (("sql", "sql"), ("zero", "zero"), ("alias", "sql")):
            text = (ROOT / "reference" / "mini" / part / f"{other}.{suffix}").read_bytes()
            (tmp_path / "results" / "mini" / part / f"{name}.{suffix}").write_bytes(text)
    return tmp_path


def test_sound_records_are_shipped(run, measured, monkeypatch):
    assert _ship(run, measured, monkeypatch, "sql", "zero")[0] == 0
    assert (measured / "reference" / "mini" / "acceptance" / "zero.parquet").exists()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["alias"], "holds adapter 'sql'"),
        (["sql", "sql"], "stands twice"),
        (["../mini/sql"], "name of an adapter"),
        (["gone"], "gone.json: no such result"),
    ],
)
def test_records_under_a_wrong_name_are_not_shipped(run, measured, monkeypatch, names, message):
    code, told = _ship(run, measured, monkeypatch, *names)
    assert (code, message in told) == (2, True), told
    assert not (measured / "reference").exists()


@pytest.mark.parametrize("script", ["ship_records", "ship_fits"])
def test_a_tier_that_would_leave_its_folder_is_refused(run, script):
    code, told = run(script, "--tier", "../x", *(["--names", "sql"] if script == "ship_records" else []))
    assert (code, "name of a tier" in told) == (2, True)


@pytest.mark.parametrize("level", ["nan", "0", "1", "-1", "2", "inf", "x", ""])
def test_a_level_that_is_none_is_refused_before_anything_is_read(run, tmp_path, level):
    outputs = ("--output", tmp_path / "o.json", "--figure-table", tmp_path / "o.csv")
    code, told = run("compare_live_stress", "--live", tmp_path / "none", f"--level={level}", "--tier", "mini", *outputs)
    assert code == 2
    assert "must be a level between 0 and 1" in told


@pytest.mark.parametrize("flag", ["--duration-s", "--round-s", "--max-slope-mib-per-hour"])
@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1", "x"])
def test_a_soak_that_would_never_end_or_always_pass_is_refused(run, tmp_path, flag, value):
    models = ("--target", tmp_path, "--drafter", tmp_path, "--adapters", f"a={tmp_path}", f"b={tmp_path}")
    config = ROOT / "configs" / "mini" / "traffic.yaml"
    code, told = run("soak", "--config", config, *models, f"{flag}={value}")
    assert code == 2
    assert "must be a number above 0" in told


@pytest.mark.parametrize("payload", [{}, [], {"max_num_speculative_tokens": 2}])
def test_a_policy_that_no_engine_would_take_is_no_plan_of_a_live_stress(tmp_path, payload):
    told = {"kind": "policy", "evidence": "measured", "tier": "mini", "provenance": {}}
    write_result(tmp_path / "policy.json", payload=payload, **told)
    with pytest.raises(ResultError, match=r"policy\.json: no engine would take"):
        read_policy_result(tmp_path / "policy.json", tier="mini")
