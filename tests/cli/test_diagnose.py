import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from adapter_folders import rates_of, write_adapter, write_cost_model, write_predictor

from lora_spec.cli.main import main
from lora_spec.config import load_tier

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def inputs(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("diagnose")
    few, smoke = folder / "few", folder / "smoke"
    shutil.copytree(folder, few) and shutil.copytree(folder, smoke)
    return {
        "predictor": write_predictor(folder),
        "cost_model": write_cost_model(folder),
        "few": write_predictor(few, num_sources=6, level=0.9),
        "smoke_predictor": write_predictor(smoke, evidence="synthetic-smoke", num_sources=4),
        "smoke_cost_model": write_cost_model(smoke, evidence="synthetic-smoke"),
        "pool": folder / "pool",
        "mild": write_adapter(folder / "mild", 0.3, seed=100),
        "harsh": write_adapter(folder / "harsh", 5.0, seed=101),
    }


@pytest.fixture
def diagnose(inputs, capsys):
    def _run(folder, *flags, predictor="predictor", cost_model="cost_model") -> tuple[int, dict, str]:
        words = ["diagnose", str(folder), "--predictor", str(inputs.get(predictor, predictor))]
        words += ["--cost-model", str(inputs.get(cost_model, cost_model))] if cost_model else []
        code = main([*words, *map(str, flags)])
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == 1
        assert "Traceback" not in out + err
        return code, json.loads(out), err

    return _run


def _codes(data: dict) -> list[str]:
    return [reason["code"] for reason in data["reasons"]]


def test_a_mild_adapter_is_green_and_a_harsh_one_red_from_their_checkpoints_alone(diagnose, inputs):
    code, mild, text = diagnose(inputs["mild"], "--load-batch-size", 1)
    assert (code, mild["action"], mild["num_speculative_tokens"]) == (0, "green", 3)
    assert "green: 3 speculative tokens" in text
    expected = 1 + rates_of(0.3, 3).sum()
    assert mild["acceptance_length"]["lower"] <= expected <= mild["acceptance_length"]["upper"]
    code, harsh, _ = diagnose(inputs["harsh"], "--load-batch-size", 1)
    assert (code, harsh["action"], harsh["drafter"]) == (0, "red", "disable")


def test_the_load_decides_too(diagnose, inputs):
    _, crowded, _ = diagnose(inputs["mild"], "--load-batch-size", 16)
    assert crowded["action"] == "red"


def test_hot_traffic_asks_for_a_drafter(diagnose, inputs):
    _, data, _ = diagnose(inputs["harsh"], "--load-batch-size", 1, "--traffic-share", 0.9)
    assert (data["action"], data["drafter"]) == ("red", "adapt")


def test_the_verdict_names_predictor_and_context(diagnose, inputs):
    _, data, _ = diagnose(inputs["mild"], "--load-batch-size", 1)
    context = data["speedup"]["context"]
    assert (context["target_model"], context["draft_model"], context["tier"]) == ("target", "drafter", "test")
    assert len(data["predictor_sha256"]) == 64
    assert data["mode"] == "checkpoint_only"
    assert str(inputs["mild"].parent) not in json.dumps(data)


def test_a_predictor_of_few_sources_abstains_with_exit_code_3(diagnose, inputs):
    code, data, _ = diagnose(inputs["mild"], "--load-batch-size", 1, predictor="few")
    assert (code, data["action"], data["num_speculative_tokens"]) == (3, "abstain", None)
    assert "R_TOO_FEW_SOURCES" in _codes(data)
    assert (data["acceptance_length"]["lower"], data["acceptance_length"]["upper"]) == (1.0, 4.0)


def test_without_a_cost_model_it_abstains_and_tells_the_acceptance(diagnose, inputs):
    code, data, _ = diagnose(inputs["mild"], cost_model=None)
    assert (code, data["action"]) == (3, "abstain")
    assert "R_NO_COST_MODEL" in _codes(data)
    assert data["acceptance_length"]["estimate"] > 1


def test_an_adapter_of_the_training_pool_is_recognised(diagnose, inputs):
    _, data, _ = diagnose(inputs["pool"] / "adapter-3", "--load-batch-size", 1)
    assert "R_SEEN_IN_TRAINING" in _codes(data)


def test_an_adapter_unlike_the_pool_abstains(diagnose, tmp_path):
    code, data, _ = diagnose(write_adapter(tmp_path / "huge", 1e4, seed=7), "--load-batch-size", 1)
    assert code == 3
    assert {"R_OUT_OF_DISTRIBUTION", "R_FEATURE_OUT_OF_RANGE"} & set(_codes(data))


def test_a_zero_update_is_told_as_the_base_and_not_extrapolated(diagnose, tmp_path):
    code, data, _ = diagnose(write_adapter(tmp_path / "zero", 0.0, seed=7), "--load-batch-size", 1)
    assert code == 3
    assert {"R_ZERO_UPDATE", "N_ZERO_UPDATE"} <= set(_codes(data))
    assert data["acceptance_length"]["estimate"] == pytest.approx(1 + rates_of(0.3, 4)[:3].sum(), abs=1e-3)


def test_codes_of_an_inspection_that_abstains_are_reasons(diagnose, tmp_path):
    code, data, _ = diagnose(write_adapter(tmp_path / "dora", 0.3, seed=7, use_dora=True), "--load-batch-size", 1)
    assert (code, data["action"]) == (3, "abstain")
    assert _codes(data)[0] == "A_DORA"


def test_notes_of_an_inspection_do_not_change_the_verdict(diagnose, tmp_path):
    folder = write_adapter(tmp_path / "noted", 0.3, seed=100, newer_field=None)
    code, data, _ = diagnose(folder, "--load-batch-size", 1)
    assert (code, data["action"]) == (0, "green")
    assert "N_UNKNOWN_NULL_FIELD" in _codes(data)


def test_an_unusable_adapter_gets_the_inspections_own_json(diagnose, tmp_path, capsys):
    folder = write_adapter(tmp_path / "broken", 0.3, seed=7)
    weights = folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    code, data, _ = diagnose(folder)
    assert code == 2
    main(["inspect", str(folder), "--json"])
    inspected = json.loads(capsys.readouterr().out)
    inspected.pop("path")
    assert data == inspected
    assert "E_TRUNCATED" in data["codes"]


def test_a_missing_folder_is_wrong_input(diagnose, tmp_path):
    code, data, text = diagnose(tmp_path / "nowhere")
    assert (code, data["status"]) == (2, "error")
    assert "nowhere" in text


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"kind": "predictor"}', "[" * 100_000],
    ids=["empty", "list", "object", "part", "deep"],
)
def test_a_broken_predictor_is_wrong_input_in_one_line(diagnose, inputs, tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_text(content)
    code, data, text = diagnose(inputs["mild"], predictor=path)
    assert (code, data["status"]) == (2, "error")
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("key", ["columns", "model", "folds", "residuals", "novelty", "base_acceptance_rate_per_pos"])
@pytest.mark.parametrize("value", [None, [], {}, "text", [None]])
def test_a_damaged_payload_is_wrong_input_and_names_the_predictor(diagnose, inputs, tmp_path, key, value):
    envelope = json.loads(inputs["predictor"].read_text())
    envelope["payload"][key] = value
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(envelope))
    code, data, _ = diagnose(inputs["mild"], "--load-batch-size", 1, predictor=path)
    assert (code, data["status"]) == (2, "error")
    assert "predictor" in data["message"]


def test_a_cost_model_in_place_of_a_predictor_is_refused_by_kind(diagnose, inputs):
    code, data, _ = diagnose(inputs["mild"], predictor="cost_model")
    assert code == 2
    assert "'cost_model' where 'predictor'" in data["message"]


@pytest.mark.parametrize(("kind", "other"), [("smoke_predictor", "cost_model"), ("predictor", "smoke_cost_model")])
def test_synthetic_inputs_are_refused_unless_allowed_and_then_said(diagnose, inputs, kind, other):
    code, data, _ = diagnose(inputs["mild"], predictor=kind, cost_model=other)
    assert code == 2
    assert "synthetic-smoke" in data["message"]
    code, data, _ = diagnose(inputs["mild"], "--allow-smoke", predictor=kind, cost_model=other)
    assert code in (0, 3)
    assert "R_SYNTHETIC_SMOKE" in _codes(data)


@pytest.mark.parametrize(
    "flags",
    [
        ("--load-batch-size", "0"),
        ("--load-batch-size", "nan"),
        ("--load-batch-size", "1e308"),
        ("--traffic-share", "1.5"),
    ],
)
def test_impossible_numbers_are_refused_by_flag(diagnose, inputs, flags):
    code, data, _ = diagnose(inputs["mild"], *flags)
    assert code == 2
    assert flags[0] in data["message"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda payload: payload["base_acceptance_rate_per_pos"].reverse(), "rises with depth"),
        (lambda payload: payload["novelty"].update(num_neighbours=0), "num_neighbours 0 counts none"),
        (lambda payload: payload["novelty"].update(num_neighbours=-3), "num_neighbours -3 counts none"),
    ],
)
def test_a_predictor_that_cannot_be_reckoned_with_is_wrong_input_and_named(diagnose, inputs, tmp_path, change, message):
    result = json.loads(inputs["predictor"].read_text())
    change(result["payload"])
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(result))
    code, data, _ = diagnose(inputs["mild"], predictor=path)
    assert code == 2
    assert message in data["message"]
    assert str(path) in data["message"]


def test_a_folder_name_cannot_add_a_line_of_its_own(diagnose, inputs, tmp_path):
    forged = tmp_path / "x: green: 4 speculative tokens\nsql"
    shutil.copytree(inputs["mild"], forged)
    _, _, text = diagnose(forged, "--load-batch-size", 1)
    assert not any(line.startswith("sql") for line in text.splitlines())


def test_the_gate_file_sets_depths_and_load(diagnose, inputs, tmp_path):
    exported = json.loads(inputs["predictor"].read_text())["payload"]
    shipped = ROOT / "configs" / "mini" / "gate.yaml"
    gate = tmp_path / "fitting.yaml"
    text = shipped.read_text().replace("min_adapters: 20", f"min_adapters: {exported['min_adapters']}")
    gate.write_text(text.replace("level: 0.9", f"level: {exported['level']}"))
    code, data, _ = diagnose(inputs["mild"], "--gate", gate)
    assert code in (0, 3), data
    code, refused, _ = diagnose(inputs["mild"], "--gate", shipped)
    assert (code, "the predictor was made with" in refused["message"]) == (2, True)
    assert data["speedup"]["context"]["batch_size"] == load_tier(ROOT, "mini").gate.headline_load.batch_size
    wrong = tmp_path / "gate.yaml"
    wrong.write_text(gate.read_text() + "\ndead_bnad: 1\n")
    code, data, _ = diagnose(inputs["mild"], "--gate", wrong)
    assert code == 2
    assert "dead_bnad" in data["message"]


def test_the_script_needs_neither_torch_nor_scikit_learn_nor_a_network(inputs):
    blocked = ["torch", "vllm", "transformers", "peft", "sklearn", "scipy", "pandas", "matplotlib", "snakemake"]
    blocked += ["statsmodels", "lightgbm", "mapie", "pyarrow", "jinja2"]
    code = (
        "import runpy, socket, sys\n"
        "socket.socket = None\n"
        f"for name in {blocked!r}: sys.modules[name] = None\n"
        "import lora_spec.gate.payload  # what reads a certificate\n"
        f"sys.argv = {['diagnostic.py', str(inputs['mild']), '--predictor', str(inputs['predictor'])]!r}\n"
        f"sys.argv += {['--cost-model', str(inputs['cost_model']), '--load-batch-size', '1']!r}\n"
        f"runpy.run_path({str(ROOT / 'scripts' / 'diagnostic.py')!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["action"] == "green"


def test_a_cost_model_of_other_models_is_refused(diagnose, inputs, tmp_path):
    same = write_cost_model(tmp_path / "same", engine={"target": "target", "drafter": "drafter"})
    assert diagnose(inputs["mild"], "--load-batch-size", 1, cost_model=same)[0] == 0
    for role, engine in (("target", {"target": "Llama-70B"}), ("drafter", {"target": "target", "drafter": "x"})):
        other = write_cost_model(tmp_path / role, engine=engine)
        code, data, _ = diagnose(inputs["mild"], "--load-batch-size", 1, cost_model=other)
        assert (code, data["status"]) == (2, "error")
        assert f"for {role} {role}, the cost model was timed with {engine[role]}" in data["message"]


def test_the_cost_model_does_not_rename_what_the_verdict_is_about(diagnose, inputs, tmp_path):
    loud = write_cost_model(tmp_path / "loud", tier="paper", target_model="Llama-70B", evidence_of="times")
    _, data, _ = diagnose(inputs["mild"], "--load-batch-size", 1, cost_model=loud)
    context = data["speedup"]["context"]
    assert (context["tier"], context["target_model"], context["lora_rank"]) == ("test", "target", 4)


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"rank": 8}, "R_RANK_NOT_TIMED"),
        ({"base_model_name_or_path": "meta-llama/Llama-3.1-70B"}, "R_BASE_NAME_DIFFERS"),
    ],
)
def test_an_adapter_outside_what_was_measured_is_told_and_judged_all_the_same(diagnose, inputs, tmp_path, config, code):
    _, plain, _ = diagnose(write_adapter(tmp_path / "plain", 0.3, seed=100, **{"rank": 4}), "--load-batch-size", 1)
    _, data, _ = diagnose(write_adapter(tmp_path / "odd", 0.3, seed=100, **config), "--load-batch-size", 1)
    assert code in _codes(data)
    assert code not in _codes(plain)
    if "rank" not in config:
        assert data["action"] == plain["action"] == "green"


@pytest.mark.parametrize("name", ["target", "someone/Target", "/models/target/", None, ""])
def test_the_same_base_under_another_owner_or_folder_is_no_remark(diagnose, tmp_path, name):
    folder = write_adapter(tmp_path / "a", 0.3, seed=100, base_model_name_or_path=name)
    _, data, _ = diagnose(folder, "--load-batch-size", 1)
    assert "R_BASE_NAME_DIFFERS" not in _codes(data)


def test_missing_flags_are_a_usage_error(capsys):
    assert main(["diagnose", "somewhere"]) == 2
    assert "--predictor" in capsys.readouterr().err
