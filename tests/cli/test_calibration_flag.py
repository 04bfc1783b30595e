"""--calibration on the command line: a predictor that looks at probes asks for one, any other refuses it."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from adapter_folders import GATE, records_of, write_adapter, write_cost_model

from lora_spec.cli.main import main
from lora_spec.features import extract_features
from lora_spec.features.calibration import with_calibrations
from lora_spec.measurement.calibration_table import write_calibration
from lora_spec.predictors import fit_and_hold_out
from lora_spec.records import AcceptanceRecord
from lora_spec.results import write_result

sys.path.append(str(Path(__file__).parents[1] / "foundation"))

from made_calibration import make_prompt, make_record

NUM_DRAFTS, NUM_PROMPTS = 20_000, 4
CIRCUMSTANCES = {"evidence": "measured", "tier": "test", "provenance": {}}


def _probe(name, sha256, strength):
    """Return a probe in which the drafter agrees the less the stronger the update is."""
    agreed = [1.0] * 20
    agreed[: min(18, int(4 * strength))] = [0.0] * min(18, int(4 * strength))
    prompts = [make_prompt(index, seed=3, is_drafter_first=agreed) for index in range(NUM_PROMPTS)]
    return make_record(prompts, adapter=name, adapter_sha256=sha256)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with an adapter, its probe, one of other weights, a cost model, and a predictor on probes."""
    root = tmp_path_factory.mktemp("calibration")
    features, records, probes, sources = [], [], [], {}
    for index, strength in enumerate(np.exp(np.linspace(-2, 1.4, 24))):
        name = f"adapter-{index}"
        features.append(extract_features(write_adapter(root / name, strength, seed=index), name=name).to_dict())
        sha256 = features[-1]["adapter"]["weights_sha256"]
        records.append(AcceptanceRecord(name, sha256, records_of(name, strength)))
        probes.append(_probe(name, sha256, strength))
        sources[name] = f"source-{index % 12}"
    for mode, seen in (("checkpoint_calib", NUM_PROMPTS), ("checkpoint_only", None)):
        gate = {**GATE, "level": 0.8, "predictor": {**GATE["predictor"], "mode": mode}}
        fitted = fit_and_hold_out(
            with_calibrations(features, probes if seen else [], NUM_PROMPTS),
            records,
            gate=gate,
            sources=sources,
            target_model="target",
            draft_model="drafter",
            num_calibration_prompts=seen,
        )
        write_result(root / f"{mode}.json", kind="predictor", payload=fitted.predictor, **CIRCUMSTANCES)
    write_cost_model(root)
    sha256 = extract_features(write_adapter(root / "mild", 0.3, seed=99)).to_dict()["adapter"]["weights_sha256"]
    probe = _probe("mild", sha256, 0.3)
    write_calibration(root / "probe.parquet", probe, payload={}, **CIRCUMSTANCES)
    short = make_record(probe.prompts[:2], adapter="mild", adapter_sha256=sha256)
    write_calibration(root / "short.parquet", short, payload={}, **CIRCUMSTANCES)
    write_calibration(root / "other.parquet", _probe("mild", "b" * 64, 0.3), payload={}, **CIRCUMSTANCES)
    return root


@pytest.fixture
def diagnose(folder, capsys):
    def go(mode, *words):
        flags = ["--predictor", folder / f"{mode}.json", "--cost-model", folder / "cost_model.json", *words]
        code = main(["diagnose", str(folder / "mild"), *map(str, flags)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, json.loads(out)

    return go


def test_a_probe_gives_the_columns_that_its_predictor_looks_at(diagnose, folder):
    code, verdict = diagnose("checkpoint_calib", "--calibration", folder / "probe.parquet")
    assert verdict["mode"] == "checkpoint_calib"
    assert (code, verdict["action"]) == (0, "green")


@pytest.mark.parametrize(
    ("mode", "probe", "message"),
    [
        ("checkpoint_calib", None, "a calibration probe of 4 prompts"),
        ("checkpoint_only", "probe", "does not look at calibration probes"),
        ("checkpoint_calib", "short", "4 calibration prompts asked for, the record holds 2"),
        ("checkpoint_calib", "other", "mild"),
        ("checkpoint_calib", "nowhere", "nowhere.parquet"),
    ],
)
def test_a_probe_that_is_lacking_or_of_no_use_is_wrong_input(diagnose, folder, mode, probe, message):
    code, answer = diagnose(mode, *([] if probe is None else ["--calibration", folder / f"{probe}.parquet"]))
    assert code == 2
    assert message in answer["message"]
