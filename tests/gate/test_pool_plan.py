import json
import shlex
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from fleets import POLICY, made
from hand_made import SETTINGS, cost_model

from lora_spec.cost_model.step_model import StepCostModel
from lora_spec.cost_model.step_parts import STEP_PART_NAMES
from lora_spec.errors import ConfigError
from lora_spec.gate.fleet_policy import fleet_policy
from lora_spec.gate.pool_plan import pool_plan, pool_script
from lora_spec.gate.pools import check_loads_are_timed, check_same_engine, off_in_engine_tax, plan_pools, pool_of
from lora_spec.gate.serve_commands import Serving

HOSTILE = [
    "plain",
    "two words",
    "quo'te",
    'double"quote',
    "$(touch pwned)",
    "`touch pwned`",
    "a=b,c",
    "--enable-lora",
    "{braces}",
    "new\nline",
    "semi;colon & more | less > file",
    "ünïcode ☃",
    "back\\slash",
    "*",
    "~",
    "!x",
]


def _plan(verdicts, *, model=None, paths=None, is_merged=True, off_tax=None, **serving):
    model = model or cost_model()
    payload = fleet_policy(verdicts, model, settings=SETTINGS, policy=POLICY)
    pools = plan_pools(verdicts, payload, settings=SETTINGS, is_hot_adapter_merged=is_merged)
    paths = paths or {v.name: f"adapters/{v.name}" for v in verdicts}
    how = {"target": "target", "drafter": "drafter", "policy_path": "policy.json", "merged_dir": "merged"}
    how |= {"max_lora_rank": 8, "engine": {}} | serving
    served = Serving(adapter_paths=paths, **how)
    return pools, pool_plan(pools, payload, settings=SETTINGS, serving=served, off_tax=off_tax)


def _flag(command, name):
    return command[command.index(name) + 1]


def test_every_adapter_is_in_the_pool_of_its_depth_at_the_headline_load():
    fleet = [made("g", (3, 1)), made("a", (1, 0)), made("r", (0, 0)), made("u", (None, None), action="abstain")]
    pools, plan = _plan(fleet)
    assert {name: pool.name for name, pool in pool_of(pools).items()} == {"g": "k3", "u": "k3", "a": "k1", "r": "off"}
    assert [pool["is_base_served"] for pool in plan["pools"]] == [True, False, False]
    assert sorted(name for pool in pools for name in pool.adapters) == ["a", "g", "r", "u"]


def test_the_standing_pool_is_there_without_any_adapter_in_it():
    pools, plan = _plan([made("r", (0, 0), action="red")])
    assert [pool.name for pool in pools] == ["k3", "off"]
    assert "--enable-lora" not in plan["pools"][0]["command"]


def test_a_hot_and_harmful_adapter_is_merged_unless_the_config_says_no():
    hot = made("hot", (0, 0), action="red", drafter="adapt")
    pools, plan = _plan([hot])
    (merged,) = (pool for pool in plan["pools"] if pool["is_merged"])
    assert (merged["name"], merged["adapters"]) == ("merged-1", ["hot"])
    assert not {"--enable-lora", "--speculative-config"} & set(merged["command"])
    assert merged["prepare"][-3:] == ["target", "adapters/hot", merged["command"][2]]
    assert "--served-model-name=hot" in merged["command"]
    pools, _ = _plan([hot], is_merged=False)
    assert pool_of(pools)["hot"].name == "off"


def test_only_pools_that_speculate_load_a_drafter():
    _, plan = _plan([made("g", (3, 3)), made("a", (2, 2)), made("r", (0, 0))])
    configs = {p["name"]: p["command"] for p in plan["pools"]}
    assert json.loads(_flag(configs["k2"], "--speculative-config")) == {
        "method": "draft_model",
        "model": "drafter",
        "num_speculative_tokens": 2,
    }
    assert "--speculative-config" not in configs["off"]
    assert len({_flag(command, "--port") for command in configs.values()}) == 3


def test_the_one_engine_gets_the_deepest_depth_the_policy_and_every_adapter():
    _, plan = _plan([made("g", (3, 3)), made("r", (0, 0))], policy_path="a b/policy.json")
    command = plan["one_engine"]["command"]
    assert json.loads(_flag(command, "--speculative-config"))["num_speculative_tokens"] == 3
    assert json.loads(_flag(command, "--additional-config")) == {
        "lora_spec": {"policy": "a b/policy.json", "adapters": ["g", "r"]}
    }
    assert _flag(command, "--scheduler-cls") == "lora_spec.policy.vllm_scheduler.DepthAsyncScheduler"


def test_an_engine_is_started_as_it_was_timed():
    engine = {"dtype": "bfloat16", "max_model_len": 512, "max_num_seqs": 16, "enforce_eager": True, "max_loras": 4}
    _, plan = _plan([made(f"a{i}", (3, 3)) for i in range(6)], engine=engine | {"is_async_scheduling": False})
    command = plan["one_engine"]["command"]
    told = ("--dtype", "--max-model-len", "--max-num-seqs", "--max-loras", "--max-lora-rank")
    assert [_flag(command, flag) for flag in told] == ["bfloat16", "512", "16", "4", "8"]
    assert "--enforce-eager" in command
    assert _flag(command, "--scheduler-cls").endswith(".DepthScheduler")


@pytest.mark.parametrize(("rank", "told"), [(1, 1), (2, 8), (8, 8), (9, 16), (300, 320), (4000, 4000)])
def test_ranks_are_rounded_up_to_what_vllm_takes(rank, told):
    _, plan = _plan([made("a", (3, 3))], max_lora_rank=rank)
    assert _flag(plan["pools"][0]["command"], "--max-lora-rank") == str(told)


def test_off_in_this_engine_is_told_from_off_in_another_pool():
    _, plan = _plan([made("g", (3, 0)), made("r", (0, 0)), made("hot", (0, 0), action="red", drafter="adapt")])
    assert plan["off"] == {"in_engine": ["r", "hot"], "in_another_pool": ["r", "hot"], "in_engine_tax": None}


def _step_cost(engine=None, **parts):
    """Return parts of a step that are known exactly; those not named take no time."""
    parts_ms = np.array([float(parts.get(name, 0)) for name in STEP_PART_NAMES])
    draws, loads = np.repeat(parts_ms[None], 3, axis=0), np.zeros(4)
    return StepCostModel(parts_ms, draws, loads, np.zeros((3, 4)), {"engine": engine or {}})


def test_the_tax_is_the_idle_pass_of_the_drafter_over_the_step_without_one():
    parts = _step_cost(step_ms=80, token_ms=4, context_token_ms=0.01, idle_draft_ms=6, idle_draft_token_ms=1)
    tax = off_in_engine_tax(parts, batch_size=4, num_context_tokens=100)
    assert tax.estimate == pytest.approx((6 + 4) / (80 + 4 * 4 + 0.01 * 400))
    assert tax.lower == tax.upper == pytest.approx(tax.estimate)
    assert _plan([made("r", (0, 0))], off_tax=tax)[1]["off"]["in_engine_tax"] == asdict(tax)


def test_parts_of_another_pair_say_nothing_of_this_one():
    table = cost_model()
    named = replace(table, context={**table.context, "engine": {"target": "t", "drafter": "d"}})
    check_same_engine(_step_cost({"target": "t", "drafter": "d"}), named)
    check_same_engine(_step_cost(), named)
    with pytest.raises(ConfigError, match="timed with drafter e, the cost model with d"):
        check_same_engine(_step_cost({"target": "t", "drafter": "e"}), named)


@pytest.mark.parametrize("key", ["vllm", "dtype", "enforce_eager", "lora_rank"])
def test_parts_of_another_engine_say_nothing_of_this_one(key):
    engine = {"vllm": "0.32.0", "dtype": "bfloat16", "enforce_eager": True}
    table = replace(cost_model(), context={"engine": engine, "lora_rank": 8})
    parts = _step_cost(engine)
    same = replace(parts, context={**parts.context, "lora_rank": 8})
    check_same_engine(same, table)
    other = {"engine": engine | {key: "other"}} if key in engine else {"lora_rank": 64}
    with pytest.raises(ConfigError, match=f"timed with {key.replace('_', ' ')}"):
        check_same_engine(replace(same, context=same.context | other), table)


def test_parts_of_an_engine_that_cannot_draft_say_nothing_of_one_that_can():
    with pytest.raises(ConfigError, match="without a drafter"):
        check_same_engine(_step_cost().without_drafter(), cost_model())


def test_loads_far_beyond_what_was_timed_are_refused():
    parts = replace(_step_cost(), context={"max_batch_size": 4})
    check_loads_are_timed(parts, [1, 8], max_extrapolation=2.0)
    with pytest.raises(ConfigError, match="up to batch size 4, the policy is for batch size 16"):
        check_loads_are_timed(parts, [1, 16], max_extrapolation=2.0)


@pytest.fixture
def fake_vllm(tmp_path):
    """Put a ``vllm`` and a ``python`` on the path that write down their words, one NUL after each."""
    for name in ("vllm", "python"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > words.{name}\n")
        program.chmod(0o755)

    def run(script, *words, **more):
        (tmp_path / "pools.sh").write_text(script)
        env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", **more}
        how = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True, "check": False}
        done = subprocess.run(["sh", "pools.sh", *words], **how)
        files = {p.name.partition(".")[2]: p.read_text().split("\0")[:-1] for p in tmp_path.glob("words.*")}
        return done, files

    return run


def test_an_engine_may_be_started_by_other_words_than_vllm_serve(fake_vllm):
    _, plan = _plan([made("g", (3, 3))])
    done, files = fake_vllm(pool_script(plan), "one-engine", SERVE="python -m some.server --model")
    assert done.returncode == 0
    assert files == {"python": ["-m", "some.server", "--model", *plan["one_engine"]["command"][2:]]}


def test_one_engine_shows_its_counters_by_adapter_on_the_servers_own_metrics(fake_vllm, tmp_path):
    """The counters live in another process than the server, which finds them in a folder that both know."""
    _, plan = _plan([made("g", (3, 3))])
    (tmp_path / "bin").mkdir(exist_ok=True)
    tell = tmp_path / "bin/tell"
    tell.write_text('#!/bin/sh\n[ -d "$PROMETHEUS_MULTIPROC_DIR" ] && echo "$PROMETHEUS_MULTIPROC_DIR"\n')
    tell.chmod(0o755)
    done, _ = fake_vllm(pool_script(plan), "one-engine", SERVE="tell", TMPDIR=str(tmp_path))
    assert done.stdout.startswith(str(tmp_path))
    done, _ = fake_vllm(pool_script(plan), "one-engine", SERVE="tell", PROMETHEUS_MULTIPROC_DIR=str(tmp_path / "bin"))
    assert done.stdout.strip() == str(tmp_path / "bin")


def test_weights_are_merged_by_the_interpreter_that_is_named(fake_vllm):
    _, plan = _plan([made("hot", (0, 0), action="red", drafter="adapt")])
    assert plan["pools"][-1]["prepare"][0] == "python3"
    done, files = fake_vllm(pool_script(plan), "merged-1", PYTHON="python")
    assert done.returncode == 0, done.stderr
    assert files["python"] == plan["pools"][-1]["prepare"][1:]


def test_a_shell_hands_over_every_word_as_planned_whatever_the_names(tmp_path, fake_vllm):
    fleet = [made(name, (3, 3)) for name in HOSTILE]
    _, plan = _plan(fleet, paths={name: f"some dir/{name}'s" for name in HOSTILE}, target="my target's")
    for engine in (plan["pools"][0], plan["one_engine"]):
        assert shlex.split(engine["shell"]) == engine["command"]
        done, files = fake_vllm(pool_script(plan), engine["name"], "--port", "9")
        assert (done.returncode, done.stderr) == (0, "")
        assert files["vllm"] == [*engine["command"][1:], "--port", "9"]
    assert not (tmp_path / "pwned").exists()


def test_a_hostile_hot_adapter_is_merged_and_served_under_its_name(tmp_path, fake_vllm):
    name = "it's $(touch pwned)"
    _, plan = _plan([made(name, (0, 0), action="red", drafter="adapt")])
    done, files = fake_vllm(pool_script(plan), "merged-1", PYTHON="python")
    assert done.returncode == 0, done.stderr
    assert files["python"][-3:] == ["target", f"adapters/{name}", plan["pools"][-1]["command"][2]]
    assert f"--served-model-name={name}" in files["vllm"]
    compile(files["python"][1], "merge", "exec")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "other", [{"name": "other"}, {"target": "other"}, {"paths": {"hot": "other"}}, {"weights": "f"}]
)
def test_merged_weights_of_something_else_are_never_taken_for_these(other):
    def merged(name="hot", weights="0", **how):
        told = {name: weights * 64}
        return _plan([made(name, (0, 0), action="red", drafter="adapt")], weights_sha256=told, **how)[1]["pools"][-1]

    assert merged()["command"][2] == merged()["command"][2] == merged()["prepare"][-1]
    assert merged(**other)["command"][2] != merged()["command"][2]


@pytest.fixture
def merge(tmp_path):
    """Return a function that runs the merge of a hot adapter beside stand-ins for PEFT and transformers."""
    _, plan = _plan([made("hot", (0, 0), action="red", drafter="adapt")], merged_dir=str(tmp_path / "merged"))
    _, *words = plan["pools"][-1]["prepare"]

    def run(*, tokenizer):
        stubs = {
            "peft": "class PeftModel:\n    @staticmethod\n    def from_pretrained(model, adapter): return model\n",
            "transformers": (
                "import os\nclass Model:\n    def merge_and_unload(self): return self\n"
                "    def save_pretrained(self, path): os.makedirs(path, exist_ok=True)\n"
                "class AutoModelForCausalLM:\n    @staticmethod\n    def from_pretrained(path, dtype): return Model()\n"
                f"class AutoTokenizer:\n    @staticmethod\n    def from_pretrained(path): {tokenizer}\n"
            ),
        }
        for name, text in stubs.items():
            (tmp_path / f"{name}.py").write_text(text)
        env = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "OUTPUT": words[-1]}
        done = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, check=False)
        return done, sorted(path.name for path in (tmp_path / "merged").iterdir())

    return run


def test_a_merge_that_was_stopped_leaves_nothing_that_would_be_served(merge):
    done, left = merge(tokenizer="raise SystemExit('stopped')")
    assert done.returncode == 1, done.stderr
    assert left == []


def test_a_merge_is_done_once_and_the_second_takes_what_is_there(merge):
    done, (name,) = merge(tokenizer="return Model()")
    assert done.returncode == 0, done.stderr
    again, left = merge(tokenizer="raise SystemExit('merged again')")
    assert (again.returncode, again.stderr, left) == (0, "", [name])


def test_of_two_merges_at_once_the_slower_takes_what_the_faster_made(merge):
    faster = "os.makedirs(os.environ['OUTPUT'] + '/weights'); return Model()"
    done, left = merge(tokenizer=faster)
    assert (done.returncode, done.stderr, len(left)) == (0, "", 1)


def test_stars_in_the_words_that_start_an_engine_are_no_file_names(fake_vllm):
    _, plan = _plan([made("g", (3, 3))])
    _, files = fake_vllm(pool_script(plan), "one-engine", SERVE="vllm *")
    assert files["vllm"][0] == "*"


def test_the_script_lists_its_engines_for_a_name_that_it_does_not_know(fake_vllm):
    _, plan = _plan([made("a", (1, 1))])
    for words in ([], ["k7"], ["$(true)"]):
        done, files = fake_vllm(pool_script(plan), *words)
        assert (done.returncode, files) == (2, {})
        assert "names: k3 k1 one-engine" in done.stderr


def test_modules_are_named_as_vllm_splits_them():
    _, plan = _plan([made(name, (3, 3)) for name in HOSTILE])
    command = plan["pools"][0]["command"]
    words = command[command.index("--lora-modules") + 1 :]
    found = {}
    for word in words:  # the rule of vLLM 0.32's LoRAParserAction
        if "=" in word and "," not in word:
            name, path = word.split("=", 1)
        else:
            name, path = (json.loads(word)[key] for key in ("name", "path"))
        found[name] = path
    assert found == {name: f"adapters/{name}" for name in HOSTILE}
    assert not any(word.startswith("-") for word in words)


def test_more_names_than_a_word_can_hold_are_left_out_of_it():
    _, plan = _plan([made(f"adapter-{i:05d}", (3, 3)) for i in range(9000)])
    command = plan["one_engine"]["command"]
    assert json.loads(_flag(command, "--additional-config")) == {"lora_spec": {"policy": "policy.json"}}
    assert max(map(len, command)) < 2**17
