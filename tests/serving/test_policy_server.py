"""A real ``vllm serve`` on loopback whose speculation obeys a policy file, adapter by adapter."""

import json
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lora_spec.engines.server_options import ServerOptions
from lora_spec.engines.vllm_server import VllmServer
from lora_spec.errors import EngineError
from lora_spec.stress.server_counters import parse_counters

pytestmark = [
    pytest.mark.serving,
    pytest.mark.filterwarnings("default"),
    pytest.mark.allow_hosts(["127.0.0.1"]),
]
MAX_TOKENS = 24
RATIOS = [1.0, 1.1, 1.2, 1.3, 1.4]


def _write_policy(path, default, adapters, live=None):
    loads = [{"max_batch_size": 8, "step_time_ratios": RATIOS}]
    payload = {"max_num_speculative_tokens": 4, "loads": loads, "default": default, "adapters": adapters, "live": live}
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"kind": "policy", "schema_version": "1", "payload": payload}))
    new.replace(path)


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    path = tmp_path_factory.mktemp("policy") / "policy.json"
    _write_policy(path, 4, {})
    return path


@pytest.fixture(scope="module")
def server(pair, adapters, policy, tmp_path_factory):
    options = ServerOptions(
        target=Path(pair[0]),
        drafter=Path(pair[1]),
        num_speculative_tokens=4,
        adapters={name: Path(adapters[name].path) for name in ("weak", "strong", "stronger")},
        dtype="float32",
        max_model_len=160,
        max_num_seqs=8,
        max_loras=2,
        max_lora_rank=8,
        policy=policy,
    )
    with VllmServer(options, log=tmp_path_factory.mktemp("server") / "server.log") as started:
        yield started


def _complete(server, model, prompt, **options):
    body = {"model": model, "prompt": list(prompt), "max_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(
        f"{server.base_url}/v1/completions",
        data=json.dumps(body | options).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())["choices"][0]["text"]


def _counters(server):
    return parse_counters(server.metrics_text())


def _put(server, path, change, prompts):
    """Change the policy file and wait until the scheduler has looked at it."""
    before = sum(_counters(server).num_policies.values())
    change(path)
    for _ in range(40):
        _complete(server, "base", prompts[0].token_ids, max_tokens=2)
        if sum(_counters(server).num_policies.values()) > before:
            return
        time.sleep(0.25)
    raise AssertionError("the scheduler never looked at the file")


def _texts(server, prompts, models):
    """Return the texts of a mixed batch by model."""
    jobs = [(model, prompt.token_ids) for prompt in prompts[:3] for model in models]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda job: _complete(server, *job), jobs))


def test_each_adapter_drafts_as_deep_as_the_policy_says_and_texts_are_those_of_depth_zero(server, policy, prompts):
    models = ("weak", "strong", "stronger")
    _put(server, policy, lambda path: _write_policy(path, 0, {}), prompts)
    plain = _texts(server, prompts, models)
    _put(server, policy, lambda path: _write_policy(path, 4, {"weak": 3, "strong": 1, "stronger": 0}), prompts)
    before = _counters(server)
    assert _texts(server, prompts, models) == plain
    found = _counters(server).since(before)
    assert set(found) == {"weak", "strong"}
    assert found["weak"].num_draft_tokens > 2 * found["weak"].num_drafts  # 3 but where the cap cuts the last step
    assert found["strong"].num_draft_tokens <= found["strong"].num_drafts


def test_every_output_token_is_accounted_for_by_the_adapters_counters(server, policy, prompts):
    _put(server, policy, lambda path: _write_policy(path, 2, {"strong": 2}), prompts)
    before = _counters(server)
    for prompt in prompts[:4]:
        _complete(server, "strong", prompt.token_ids)
    counts = _counters(server).since(before)["strong"]
    # The first token comes from the prefill, each verified step gives one and what it accepted; the last may overrun.
    given = 4 * (MAX_TOKENS - 1)
    assert given <= counts.num_drafts + counts.num_accepted_tokens <= given + 4 * 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text(path.read_text()[:40]),
        lambda path: _write_policy(path, 0, {"stranger": 1}),
        lambda path: _write_policy(path, 5, {}),
    ],
)
def test_a_bad_file_leaves_the_last_good_policy_in_force(server, policy, prompts, spoil):
    _put(server, policy, lambda path: _write_policy(path, 0, {"weak": 2}), prompts)
    refused = _counters(server).num_policies.get("refused", 0)
    _put(server, policy, spoil, prompts)
    before = _counters(server)
    assert before.num_policies["refused"] == refused + 1
    _texts(server, prompts, ("weak", "strong"))
    assert set(_counters(server).since(before)) == {"weak"}


def test_an_adapter_that_loses_is_demoted_by_itself(server, policy, prompts):
    live = {"window_drafts": 20, "hysteresis": 0.0, "min_dwell_s": 0.0, "probe_interval_s": 1e6, "probe_drafts": 20}
    rule = live | {"num_standard_errors": 0.0}
    _put(server, policy, lambda path: _write_policy(path, 4, {"stronger": 4}, live=rule), prompts)
    before = _counters(server)
    for _ in range(3):
        _texts(server, prompts, ("stronger", "base"))
    now = _counters(server)
    lost = now.since(before)["stronger"]
    assert now.num_changes.get("stronger", 0) > before.num_changes.get("stronger", 0)
    later = _counters(server)
    _texts(server, prompts, ("stronger",))
    again = _counters(server).since(later).get("stronger")
    assert again is None or again.num_draft_tokens / again.num_drafts < lost.num_draft_tokens / lost.num_drafts


def test_a_server_whose_owner_is_killed_ends_by_itself(tmp_path):
    owner = (
        "import sys, time; from pathlib import Path\n"
        "import lora_spec.engines.vllm_server as module\n"
        "from lora_spec.engines.server_options import ServerOptions\n"
        "module.server_command = lambda options, port: ['sleep', '600']\n"
        "server = module.VllmServer(ServerOptions(target=Path('t')), log=Path(sys.argv[1]))\n"
        "server._wait_until_ready = lambda deadline_s: (print(server.pid, flush=True), time.sleep(600))\n"
        "server.__enter__()\n"
    )
    command = [sys.executable, "-c", owner, str(tmp_path / "server.log")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    server_pid = int(process.stdout.readline())
    while not Path(f"/proc/{server_pid}/cmdline").read_bytes().startswith(b"sleep"):
        time.sleep(0.05)  # what ties it to its owner is set just before
    process.kill()
    process.wait()
    process.stdout.close()
    for _ in range(100):
        if not Path(f"/proc/{server_pid}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{server_pid}").exists()


def test_the_server_ends_with_its_block_and_a_bad_start_says_why(pair, tmp_path):
    options = ServerOptions(target=tmp_path / "nothing")
    with pytest.raises(EngineError, match=r"server\.log"), VllmServer(options, log=tmp_path / "server.log"):
        pass
