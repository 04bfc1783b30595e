"""The kit of adapter cases, run through the command line in this process."""

import json
from pathlib import Path

import build_adapter_cases as kit
import check_adapter_cases as checker
import pytest

from lora_spec.cli.main import main


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("cases")
    kit.build_all(folder)
    return folder, json.loads((folder / "expected.json").read_text())["cases"]


@pytest.mark.parametrize("name", kit.CASES)
def test_every_case_of_the_kit_gets_the_expected_answer(name, cases, capsys):
    folder, expected = cases
    if name not in expected:
        pytest.skip("this platform cannot hold the case")
    wanted = expected[name]
    code = main(["inspect", str(folder / wanted["dir"]), "--json"])
    captured = capsys.readouterr()
    answer = checker.Answer(code, captured.out, captured.err)
    checker.check_text("stderr", answer.stderr)
    checker.check_text("stdout", answer.stdout)
    report = checker.parse(answer.stdout)
    checker.check_text("message", report["message"])
    checker.check_verdict(answer, report, wanted)
    if wanted["status"] == "ok":
        checker.check_adapter(report["adapter"], wanted["adapter"])
