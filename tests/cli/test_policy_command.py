import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

sys.path.append(str(Path(__file__).parent.parent / "gate"))

from fleets import verdict_data, write_verdict
from hand_made import cost_model

from lora_spec.cli.main import main
from lora_spec.cli.policy_folder import profile_path
from lora_spec.config import load_tier
from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.step_parts import STEP_PART_NAMES
from lora_spec.gate import gate_settings
from lora_spec.policy.policy_file import parse_policy
from lora_spec.results import write_result

ROOT = Path(__file__).parents[2]
GATE = ROOT / "configs" / "mini" / "gate.yaml"
SETTINGS = gate_settings(load_tier(ROOT, "mini").gate.to_dict())
HOSTILE = ["two words", "quo'te", "../up", "a/b", "x" * 300, "<script>alert(1)</script>", "$(id)", "new\nline"]


def _write_cost_model(path: Path, evidence="measured") -> Path:
    write_result(path, kind="cost_model", evidence=evidence, tier="mini", provenance={}, payload=cost_model().to_dict())
    return path


@pytest.fixture
def inputs(tmp_path):
    for name, alpha in (("good", 0.9), ("poor", 0.0)):
        write_verdict(tmp_path / "verdicts", name, verdict_data(name, alpha, settings=SETTINGS))
    _write_cost_model(tmp_path / "cost.json")
    return tmp_path


@pytest.fixture
def policy(inputs, capsys):
    def _run(*words, verdicts=("verdicts",), **flags):
        chosen = {"cost_model": inputs / "cost.json", "gate": GATE, "target": "t", "drafter": "d"}
        chosen |= {"output_dir": inputs / "out", "adapters_dir": "adapters"} | flags
        line = ["policy", *(str(inputs / v) for v in verdicts)]
        for key, value in chosen.items():
            line += [] if value is None else [f"--{key.replace('_', '-')}", str(value)]
        code = main([*line, *map(str, words)])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return _run


def test_verdicts_become_a_policy_that_the_engine_reads_and_all_other_files(policy, inputs):
    code, out, err = policy("--json")
    assert code == 0, err
    folder = inputs / "out"
    found = parse_policy((folder / "policy.json").read_bytes(), max_depth=2, known_adapters={"good", "poor"})
    assert [load.max_batch_size for load in found.loads] == [1, 2, 4, 8]
    assert found.depths_of("good")[0] == 2
    assert found.depths_of("poor") == (0, 0, 0, 0)
    assert found.live is not None
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    profiles = {f"profiles/{name}.speculation_profile.json" for name in ("good", "poor")}
    assert names == {"policy.json", "pools.json", "pools.sh", "fleet.html", *profiles}
    envelope = json.loads((folder / "policy.json").read_text())
    assert (envelope["kind"], envelope["evidence"], envelope["tier"]) == ("policy", "measured", "mini")
    assert json.loads(out) == json.loads((folder / "pools.json").read_text())["payload"]
    assert str(inputs) not in json.dumps(envelope["provenance"])


def test_hostile_names_reach_every_file_whole_and_leave_the_folder_alone(policy, inputs):
    paths = []
    for index, name in enumerate(HOSTILE):
        write_verdict(inputs / "wild", str(index), verdict_data(name, 0.9, settings=SETTINGS))
        paths += ["--adapter", f"{name}=some dir/{index}"]
    code, _, err = policy(*paths, verdicts=("wild",), adapters_dir=None)
    assert code == 0, err
    folder = inputs / "out"
    assert set(json.loads((folder / "policy.json").read_text())["payload"]["adapters"]) == set(HOSTILE)
    profiles = [json.loads(path.read_text()) for path in (folder / "profiles").iterdir()]
    assert {profile["lora_adapter"]["name"] for profile in profiles} == set(HOSTILE)
    assert sorted(path.name for path in inputs.iterdir()) == ["cost.json", "out", "verdicts", "wild"]
    assert "<script>alert" not in (folder / "fleet.html").read_text()


def test_profile_files_have_safe_names_of_their_own():
    paths = {profile_path(Path("out"), name) for name in HOSTILE}
    assert len(paths) == len(HOSTILE)
    assert {path.parent for path in paths} == {Path("out/profiles")}
    assert profile_path(Path("out"), "sql").name == "sql.speculation_profile.json"


def test_a_refused_run_leaves_the_last_good_policy_untouched(policy, inputs):
    assert policy()[0] == 0
    before = (inputs / "out" / "policy.json").read_bytes()
    gate = yaml.safe_load(GATE.read_text()) | {"standing_num_speculative_tokens": 3}
    (inputs / "gate.yaml").write_text(yaml.safe_dump(gate))
    code, _, err = policy(gate=inputs / "gate.yaml")
    assert code == 2
    assert "standing depth 2, gate.yaml about 3" in err
    assert (inputs / "out" / "policy.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "flags", "told"),
    [
        ((), {"adapters_dir": None}, "adapter good: nobody says where it lies"),
        (("--adapter", "nobody=x"), {}, "--adapter nobody: no verdict"),
        (("--adapter", "no-sign"), {}, "write NAME=PATH"),
        ((), {"cost_model": "none.json"}, "none.json"),
        ((), {"gate": "none.yaml"}, "none.yaml"),
        ((), {"measured": "none.json"}, "none.json"),
        ((), {"mode": "measured"}, "no verdict of mode measured"),
        ((), {"max_loras": 0}, "--max-loras 0"),
        ((), {"target": ""}, "--target"),
        ((), {"drafter": "--oops"}, "drafter"),
        ((), {"output_dir": ""}, "empty path"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(policy, words, flags, told):
    code, out, err = policy(*words, **flags)
    assert (code, out) == (2, "")
    assert told in err


def test_an_output_that_would_replace_a_folder_is_refused_before_anything_is_written(policy, inputs):
    (inputs / "out" / "policy.json").mkdir(parents=True)
    code, _, err = policy()
    assert code == 2
    assert "a folder" in err
    assert [path.name for path in (inputs / "out").iterdir()] == ["policy.json"]


def test_synthetic_inputs_need_permission_and_mark_what_they_make(policy, inputs):
    smoke = _write_cost_model(inputs / "smoke.json", evidence="synthetic-smoke")
    assert policy(cost_model=smoke)[0] == 2
    code, _, err = policy("--allow-smoke", cost_model=smoke)
    assert code == 0, err
    assert json.loads((inputs / "out" / "policy.json").read_text())["evidence"] == "synthetic-smoke"
    assert 'class="watermark"' in (inputs / "out" / "fleet.html").read_text()


def _write_step_cost(path, **engine):
    parts = np.array(
        [80.0 if name == "step_ms" else 4.0 if name == "idle_draft_ms" else 0.0 for name in STEP_PART_NAMES]
    )
    fitted = StepCostModel(parts, parts[None], np.zeros(4), np.zeros((1, 4)), {"engine": engine})
    told = {"kind": "step_cost", "evidence": "measured", "tier": "mini", "provenance": {}}
    write_result(path, payload=fitted.to_dict(), **told)
    return path


def test_the_parts_of_a_step_say_what_being_off_in_the_engine_costs(policy, inputs):
    _, without, _ = policy("--json")
    assert json.loads(without)["off"]["in_engine_tax"] is None
    code, out, err = policy("--json", step_cost=_write_step_cost(inputs / "parts.json"))
    assert code == 0, err
    tax = json.loads(out)["off"]["in_engine_tax"]
    assert (tax["estimate"], tax["lower"], tax["upper"]) == pytest.approx((0.05, 0.05, 0.05))
    assert "this tax is 0.05" in (inputs / "out" / "fleet.html").read_text()


@pytest.mark.parametrize(
    ("tokens", "is_worth_it"), [({"good": 1.0, "poor": 0.0}, True), ({"good": 0, "poor": 7}, False)]
)
def test_it_says_whether_the_engine_of_this_traffic_should_draft(policy, inputs, tokens, is_worth_it):
    parts = _write_step_cost(inputs / "parts.json")
    (inputs / "traffic.json").write_text(json.dumps(tokens))
    code, out, err = policy("--json", step_cost=parts, traffic=inputs / "traffic.json")
    assert code == 0, err
    plan, page = json.loads(out), (inputs / "out" / "fleet.html").read_text()
    assert plan["drafting_gain"]["is_drafter_worth_it"] is is_worth_it
    assert ("start no-drafter instead" in err) is not is_worth_it
    assert ("sh pools.sh no-drafter" in page) is not is_worth_it
    assert ("sh pools.sh one-engine" in page) is is_worth_it
    told = plan["drafting_gain"]["told"]
    assert told in err
    assert told[1:] in page
    at_headline = [one for one in plan["drafting_gain_by_load"] if one["batch_size"] == plan["batch_size"]]
    assert [one["goodput_ratio"] for one in at_headline] == [plan["drafting_gain"]["goodput_ratio"]]
    assert [one["batch_size"] for one in plan["drafting_gain_by_load"]] == [1, 2, 4, 8]
    assert "--speculative-config" not in plan["no_drafter"]["command"]
    assert "no-drafter)" in (inputs / "out" / "pools.sh").read_text()


def test_traffic_of_a_stranger_is_refused_and_nothing_is_written(policy, inputs):
    (inputs / "traffic.json").write_text('{"nobody": 1}')
    code, _, err = policy(step_cost=_write_step_cost(inputs / "parts.json"), traffic=inputs / "traffic.json")
    assert code == 2
    assert "traffic of adapter nobody" in err
    assert not (inputs / "out").exists()


def test_a_folder_of_adapters_that_lacks_some_of_the_fleet_is_refused(policy, inputs):
    from adapter_folders import write_adapter

    write_adapter(inputs / "adapters" / "good", 0.3, seed=0, rank=12)
    code, _, err = policy(adapters_dir=inputs / "adapters")
    assert code == 2
    assert "no adapter poor in it" in err
    assert not (inputs / "out").exists()
    assert policy("--adapter", "poor=hub/poor", adapters_dir=inputs / "adapters")[0] == 0
    assert policy(adapters_dir="on/the/engines/machine")[0] == 0


def test_the_load_of_the_verdicts_is_the_load_of_the_plan(policy, inputs):
    for batch_size in (1, 8):
        told = replace(SETTINGS, headline_batch_size=batch_size)
        for name, alpha in (("good", 0.9), ("poor", 0.0)):
            write_verdict(inputs / f"at{batch_size}", name, verdict_data(name, alpha, settings=told))
        code, out, err = policy("--json", verdicts=(f"at{batch_size}",))
        assert code == 0, err
        assert json.loads(out)["batch_size"] == batch_size
        assert f"off at batch {batch_size}" in err
    code, _, err = policy(verdicts=("at1/good.json", "at8/poor.json"))
    assert code == 2
    assert "good.json is about batch size 1, " in err


def test_ranks_come_from_the_adapters_that_lie_here(policy, inputs):
    from adapter_folders import write_adapter

    write_adapter(inputs / "adapters" / "good", 0.3, seed=0, rank=12)
    write_adapter(inputs / "adapters" / "poor", 0.3, seed=1, rank=4)
    code, out, _ = policy("--json", adapters_dir=inputs / "adapters")
    command = json.loads(out)["one_engine"]["command"]
    assert code == 0
    assert command[command.index("--max-lora-rank") + 1] == "16"


def test_five_packages_are_enough(inputs):
    barred = ("pandas", "matplotlib", "scipy", "statsmodels", "sklearn", "lightgbm", "pyarrow", "jinja2", "torch")
    words = ["policy", "verdicts", "--cost-model", "cost.json", "--gate", str(GATE), "--target", "t", "--drafter", "d"]
    words += ["--adapters-dir", "adapters", "--output-dir", "out"]
    script = f"import sys; sys.modules.update(dict.fromkeys({barred}, None))\n"
    script += f"from lora_spec.cli.main import main; sys.exit(main({words}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=inputs, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (inputs / "out" / "fleet.html").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "out").write_text("a file"),
        lambda folder: (folder / "out").symlink_to("out"),
        lambda folder: (folder / "out").symlink_to("nowhere/at/all"),
        lambda folder: ((folder / "out").mkdir(), (folder / "out" / "profiles").write_text("a file")),
    ],
)
def test_an_output_folder_that_cannot_be_is_named_and_nothing_is_written(policy, inputs, spoil):
    spoil(inputs)
    code, out, err = policy()
    assert (code, out) == (2, "")
    assert str(inputs / "out") in err
    assert not (inputs / "out").is_dir() or not (inputs / "out" / "policy.json").exists()


def test_an_adapters_path_that_no_file_can_have_is_named(policy, inputs):
    code, _, err = policy("--adapter", f"good={inputs / ('x' * 300)}")
    assert code == 2
    assert "xxx: File name too long" in err


def test_profiles_of_adapters_that_left_the_fleet_go_and_other_files_stay(policy, inputs):
    assert policy()[0] == 0
    (inputs / "out/profiles/notes.txt").write_text("mine")
    assert policy(verdicts=("verdicts/good.json",))[0] == 0
    assert sorted(path.name for path in (inputs / "out/profiles").iterdir()) == [
        "good.speculation_profile.json",
        "notes.txt",
    ]


@pytest.mark.parametrize("name", ["policy.json", "pools.json"])
def test_an_input_is_never_replaced(policy, inputs, name):
    (inputs / "out").mkdir()
    (inputs / "cost.json").rename(inputs / "out" / name)
    before = (inputs / "out" / name).read_bytes()
    code, _, err = policy(cost_model=inputs / "out" / name)
    assert code == 2
    assert "name another folder" in err
    assert (inputs / "out" / name).read_bytes() == before


def test_a_policy_is_not_put_among_the_verdicts_where_the_next_run_would_read_it(policy, inputs):
    (inputs / "link").symlink_to("verdicts")
    code, _, err = policy(output_dir=inputs / "link")
    assert code == 2
    assert "name another folder" in err
    assert sorted(path.name for path in (inputs / "verdicts").iterdir()) == ["good.json", "poor.json"]


def test_two_paths_for_one_adapter_are_refused(policy):
    code, _, err = policy("--adapter", "good=a", "--adapter", "good=b")
    assert code == 2
    assert "adapter good: two paths" in err


def test_traffic_that_would_change_nothing_is_refused(policy, inputs):
    (inputs / "traffic.json").write_text('{"good": 1}')
    code, _, err = policy(traffic=inputs / "traffic.json")
    assert code == 2
    assert "--step-cost" in err


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tier": "paper"}, "made for tier 'paper'"),
        ({"payload": {"parts_ms": [0.0] * 14, "part_draws_ms": [[0.0] * 14]}}, "takes no time at all"),
        ({"payload": {"part_draws_ms": [[0.0] * 14]}}, "takes no time at all"),
        ({"payload": {"has_drafter": False}}, "without a drafter"),
        ({"payload": {"context": {"max_batch_size": 1}}}, "up to batch size 1"),
    ],
)
def test_parts_of_a_step_that_do_not_belong_here_are_refused_with_the_file_named(policy, inputs, changes, told):
    parts = _write_step_cost(inputs / "parts.json")
    result = json.loads(parts.read_text())
    payload = result["payload"] | changes.get("payload", {})
    parts.write_text(json.dumps(result | changes | {"payload": payload}))
    code, out, err = policy(step_cost=parts)
    assert (code, out) == (2, "")
    assert "parts.json" in err
    assert told in err
    assert not (inputs / "out").exists()


def test_runs_at_once_into_one_folder_leave_the_files_of_one_of_them(inputs):
    words = [sys.executable, "-P", "-m", "lora_spec.cli.main", "policy", "verdicts", "--cost-model", "cost.json"]
    words += ["--gate", str(GATE), "--drafter", "d", "--adapters-dir", "adapters", "--output-dir", "out", "--target"]
    running = [
        subprocess.Popen([*words, target], cwd=inputs, stderr=subprocess.DEVNULL) for target in ("first", "second")
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    script, plan = ((inputs / "out" / name).read_text() for name in ("pools.sh", "pools.json"))
    assert ("serve} first" in script, "serve} second" in script) in ((True, False), (False, True))
    assert ("serve} first" in script) == ('"first"' in plan)
    assert not list((inputs / "out").rglob(".*"))
