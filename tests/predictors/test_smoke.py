"""The smoke test's made-up adapters: the whole path, and nothing that could pass for evidence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lora_spec.errors import EvidenceError
from lora_spec.predictors.payload import read_predictions, read_predictor
from lora_spec.predictors.smoke import NUM_SOURCES, PER_SOURCE
from lora_spec.records import AcceptanceEstimate

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Return the folder and the words of a run of the command as the source document gives it."""
    out = tmp_path_factory.mktemp("phase3")
    words = [sys.executable, "scripts/phase3_predictor.py", "--smoke-test", "--output-dir", str(out)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    return out, done.stderr


def test_it_says_that_it_is_no_evidence_and_readers_of_evidence_refuse_it(smoke):
    out, words = smoke
    assert "SYNTHETIC SMOKE - NOT EVIDENCE" in words
    for name, read in (("predictor", read_predictor), ("predictions", read_predictions)):
        assert json.loads((out / f"{name}.json").read_text())["evidence"] == "synthetic-smoke"
        with pytest.raises(EvidenceError):
            read(out / f"{name}.json")
    assert read_predictor(out / "predictor.json", evidence=("synthetic-smoke",)).payload["num_sources"] == NUM_SOURCES


def test_every_made_up_adapter_is_predicted_without_its_source_and_most_intervals_hold_something(smoke):
    payload = json.loads((smoke[0] / "predictions.json").read_text())["payload"]
    estimates = [AcceptanceEstimate.from_dict(item["estimate"]) for item in payload["predictions"]]
    assert len(estimates) == NUM_SOURCES * PER_SOURCE
    widths = [e.acceptance_length(3).upper - e.acceptance_length(3).lower for e in estimates]
    assert max(widths) < 3.0


def test_without_the_flag_the_measured_inputs_are_asked_for():
    words = [sys.executable, "scripts/phase3_predictor.py", "--features", "x.json", "--output-dir", "never"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--records, --settings and --tier" in done.stderr
