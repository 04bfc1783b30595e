"""--base-profile on the command line: what inspect tells, what diagnose needs, what is refused."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from adapter_folders import GATE, rates_of, records_of, write_cost_model
from build_adapter_cases import store
from safetensors.numpy import save_file

from lora_spec.cli.main import main
from lora_spec.features import extract_features, read_base_profile
from lora_spec.features.base_profile import write_base_profile
from lora_spec.predictors import fit_and_hold_out
from lora_spec.records import AcceptanceRecord
from lora_spec.results import write_result

sys.path.append(str(Path(__file__).parents[1] / "features"))

from adapter_cases import plain
from linear_base import INNER, OUT, WIDE, LinearBase, Q, V

NUM_DRAFTS = 20_000


def write_adapter(folder, strength, seed):
    rng = np.random.default_rng(seed)
    shapes = {Q: (INNER, WIDE), V: (OUT, INNER)}
    modules = {
        name: (store(rng.normal(size=(2, inside)), "F64"), store(strength * rng.normal(size=(out, 2)), "F64"))
        for name, (out, inside) in shapes.items()
    }
    return plain(folder, modules=modules, target_modules=["q_proj", "v_proj"], r=2, lora_alpha=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a profile, an adapter, a cost model, and a predictor that looks at the base."""
    root = tmp_path_factory.mktemp("base_profile")
    write_base_profile(root / "profile", LinearBase().profile())
    other = LinearBase().profile()
    header = {**other.header, "target": {**other.header["target"], "name": "another"}}
    write_base_profile(root / "profile_of_another", replace(other, header=header))
    write_cost_model(root)
    write_adapter(root / "adapter", 0.1, seed=99)
    _write_predictor(root)
    return root


def _write_predictor(root):
    profile, features, records, sources = read_base_profile(root / "profile"), [], [], {}
    for index, strength in enumerate(np.exp(np.linspace(-3, 1, 24))):
        name = f"adapter-{index}"
        path = write_adapter(root / name, strength, seed=index)
        features.append(extract_features(path, name=name, profile=profile).to_dict())
        sha256 = features[-1]["adapter"]["weights_sha256"]
        records.append(AcceptanceRecord(name, sha256, records_of(name, strength, base_strength=0.1)))
        sources[name] = f"source-{index % 12}"
    gate = {**GATE, "level": 0.8, "predictor": {**GATE["predictor"], "mode": "checkpoint_base"}}
    fitted = fit_and_hold_out(
        features, records, gate=gate, sources=sources, target_model="linear", draft_model="drafter"
    )
    circumstances = {"evidence": "measured", "tier": "test", "provenance": {}}
    write_result(root / "predictor.json", kind="predictor", payload=fitted.predictor, **circumstances)


@pytest.fixture
def run(folder, capsys):
    def go(command, *words):
        code = main([command, str(folder / "adapter"), *(str(word) for word in words)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, json.loads(out) if out else None, err

    return go


def test_inspect_tells_what_an_adapter_does_to_its_base(run, folder):
    code, report, text = run("inspect", "--json", "--base-profile", folder / "profile")
    assert code == 0
    assert (report["base_profile"]["target"], report["base_profile"]["num_positions"]) == ("linear", 7)
    assert {module["name"] for module in report["base_profile"]["modules"]} == {Q, V}
    flips = report["base_profile"]["columns"]["base_margin_flip_share"]
    assert f"{100 * flips:.3g} % of the base's choices flip" in " ".join(text.split())


def test_inspect_refuses_a_profile_that_it_cannot_use(run, folder, tmp_path):
    assert run("inspect", "--base-profile", folder / "nowhere")[0] == 2
    code, _, text = run("inspect", "--header-only", "--base-profile", folder / "profile")
    assert code == 2
    assert "--header-only" in text
    (tmp_path / "base").mkdir()
    save_file({"model.norm.weight": np.ones(2, dtype=np.float32)}, tmp_path / "base" / "model.safetensors")
    code, _, text = run("inspect", "--base", tmp_path / "base", "--base-profile", folder / "profile")
    assert code == 2
    assert "not those of linear" in text


def test_an_adapter_of_another_base_is_that_folders_error(folder, tmp_path, capsys):
    wrong = plain(tmp_path / "wrong")
    assert main(["inspect", str(wrong), str(folder / "adapter"), "--base-profile", str(folder / "profile")]) == 2
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [report["status"] for report in reports] == ["error", "ok"]
    assert "do not fit" in reports[0]["message"]


def test_a_predictor_that_looks_at_the_base_gives_a_verdict_with_its_profile_alone(run, folder):
    given = ("--predictor", folder / "predictor.json", "--cost-model", folder / "cost_model.json")
    code, data, _ = run("diagnose", *given, "--base-profile", folder / "profile", "--load-batch-size", 1)
    assert (code, data["mode"]) == (0, "checkpoint_base")
    length = data["acceptance_length"]
    assert length["lower"] <= 1 + rates_of(0.1, 3).sum() <= length["upper"]
    code, data, _ = run("diagnose", *given)
    assert code == 2
    assert "give the base profile" in data["message"]
    code, data, _ = run("diagnose", *given, "--base-profile", folder / "profile_of_another")
    assert code == 2
    assert "base profile is of another" in data["message"]
