"""A policy under what real traffic does: preemption, chunked prefill, aborts; scheduled either way."""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lora_spec.engines.server_options import ServerOptions
from lora_spec.engines.vllm_server import VllmServer
from lora_spec.stress.server_counters import parse_counters

pytestmark = [
    pytest.mark.serving,
    pytest.mark.filterwarnings("default"),
    pytest.mark.allow_hosts(["127.0.0.1"]),
]
MODELS = ("base", "weak", "strong", "stronger")
DEPTHS = {"weak": 3, "strong": 1, "stronger": 0}


def _policy(depths, default):
    loads = [{"max_batch_size": 8, "step_time_ratios": [1.0, 1.1, 1.2, 1.3]}]
    payload = {"max_num_speculative_tokens": 3, "loads": loads, "default": default, "adapters": depths}
    return json.dumps({"kind": "policy", "schema_version": "1", "payload": payload})


@pytest.fixture(scope="module", params=[False, True], ids=["sync", "async"])
def servers(request, pair, adapters, tmp_path_factory):
    """Return a server under a policy with a cache and a step too small for its traffic, and its policy's path."""
    folder = tmp_path_factory.mktemp("hard")
    policy = folder / "policy.json"
    policy.write_text(_policy(DEPTHS, 2))
    options = ServerOptions(
        target=Path(pair[0]),
        drafter=Path(pair[1]),
        num_speculative_tokens=3,
        adapters={name: Path(adapters[name].path) for name in DEPTHS},
        dtype="float32",
        max_model_len=320,
        max_num_seqs=8,
        max_loras=4,
        max_lora_rank=8,
        policy=policy,
        is_async_scheduling=request.param,
        max_num_batched_tokens=64,
        num_cache_blocks=6,  # of 128 tokens on a CPU: eight requests of 160 and more do not fit
    )
    with VllmServer(options, log=folder / "server.log") as started:
        yield started, policy


def _open(server, body, timeout=180):
    request = urllib.request.Request(
        f"{server.base_url}/v1/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    return urllib.request.urlopen(request, timeout=timeout)


def _body(model, prompt, max_tokens=100, **options):
    common = {"temperature": 0, "ignore_eos": True, "max_tokens": max_tokens}
    return {"model": model, "prompt": list(prompt), **common, **options}


def _complete(server, body):
    with _open(server, body) as answer:
        return json.loads(answer.read())["choices"][0]["text"]


def _long_prompts(prompts):
    """Return prompts that take two steps of 64 tokens to read."""
    return [tuple((prompt.token_ids * 30)[: 90 + 5 * i]) for i, prompt in enumerate(prompts[:3])]


def _all_at_once(server, bodies):
    with ThreadPoolExecutor(12) as pool:
        return list(pool.map(lambda body: _complete(server, body), bodies))


def _preemptions(server):
    lines = [line for line in server.metrics_text().splitlines() if line.startswith("vllm:num_preemptions_total")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def _set_policy(server, policy, text, prompts):
    policy.with_suffix(".new").write_text(text)
    policy.with_suffix(".new").replace(policy)
    loaded = parse_counters(server.metrics_text()).num_policies.get("loaded", 0)
    for _ in range(100):
        _complete(server, _body("base", prompts[0].token_ids, 2))
        if parse_counters(server.metrics_text()).num_policies.get("loaded", 0) > loaded:
            return
    raise AssertionError("the policy was not taken")


def _idle_and_alive(server):
    text = server.metrics_text()
    running = [
        line
        for line in text.splitlines()
        if line.startswith(("vllm:num_requests_running", "vllm:num_requests_waiting{"))
    ]
    return server.is_alive() and all(float(line.rsplit(" ", 1)[1]) == 0 for line in running)


def test_preempted_and_chunked_requests_have_the_texts_of_depth_zero(servers, prompts):
    server, policy = servers
    bodies = [_body(model, prompt) for prompt in _long_prompts(prompts) for model in MODELS]
    _set_policy(server, policy, _policy({}, 0), prompts)
    plain = [_complete(server, body) for body in bodies]  # one at a time: nothing is preempted
    _set_policy(server, policy, _policy(DEPTHS, 2), prompts)
    before, preempted = parse_counters(server.metrics_text()), _preemptions(server)
    assert _all_at_once(server, bodies) == plain
    assert _preemptions(server) > preempted
    found = parse_counters(server.metrics_text()).since(before)
    assert set(found) == {"base", "weak", "strong"}
    assert found["strong"].num_draft_tokens <= found["strong"].num_drafts


def test_aborts_in_mid_flight_leave_no_request_behind(servers, prompts):
    server, _ = servers
    for round_index in range(3):
        streams = [
            _open(server, _body(model, prompt, stream=True))
            for prompt in _long_prompts(prompts)[:2]
            for model in MODELS
        ]
        for index, stream in enumerate(streams):
            for _ in range(1 + (index + round_index) % 5):
                stream.readline()
            stream.close()
    for _ in range(100):
        _complete(server, _body("weak", prompts[0].token_ids, 2))
        if _idle_and_alive(server):
            break
    assert _idle_and_alive(server)
    assert _complete(server, _body("weak", prompts[1].token_ids, 30))
