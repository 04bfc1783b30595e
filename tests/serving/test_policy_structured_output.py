"""Output held to a grammar under a policy with a depth per adapter, on a byte-level pair that xgrammar reads."""

import json
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tiny_models import save_adapter, save_pair

from lora_spec.engines.server_options import ServerOptions
from lora_spec.engines.vllm_server import VllmServer
from lora_spec.stress.server_counters import parse_counters
from lora_spec.training.own_tokenizer import train_tokenizer

pytestmark = [
    pytest.mark.serving,
    pytest.mark.filterwarnings("default"),
    pytest.mark.allow_hosts(["127.0.0.1"]),
]
SCALES = {"weak": 0.1, "strong": 0.6, "stronger": 0.9}
DEPTHS = {"weak": 3, "strong": 1, "stronger": 0}
WORDS = ["the quick brown fox", '{"name":"ada","age":36,"tags":["red","blue"]}', "yes no maybe", "0123456789"]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]{2,12}$"},
        "isOpen": {"type": "boolean"},
        "colours": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 3, "maxItems": 6},
    },
    "required": ["name", "isOpen", "colours"],
    "additionalProperties": False,
}
CHOICES = ["certainly not", "certainly", "perhaps tomorrow", "perhaps"]
PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [a-z]{3,9}){2,5}\."
GRAMMARS = {"json": SCHEMA, "choice": CHOICES, "regex": PATTERN}


def _fits_schema(text):
    found = json.loads(text)
    return (
        list(found) == ["name", "isOpen", "colours"]
        and re.fullmatch("[a-z]{2,12}", found["name"]) is not None
        and isinstance(found["isOpen"], bool)
        and 3 <= len(found["colours"]) <= 6
        and set(found["colours"]) <= {"red", "green", "blue"}
    )


IS_VALID = {
    "json": _fits_schema,
    "choice": lambda text: text in CHOICES,
    "regex": lambda text: re.fullmatch(PATTERN, text) is not None,
}


@pytest.fixture(scope="module")
def byte_pair(tmp_path_factory):
    """Return target and drafter folders of a pair whose tokens are bytes and pieces of words."""
    tokenizer = train_tokenizer(WORDS * 4, vocab_size=288)
    ends = tokenizer.eos_token_id
    sizes = {"vocab_size": len(tokenizer), "bos": tokenizer.pad_token_id, "eos": ends}
    return save_pair(tmp_path_factory.mktemp("bytes"), tokenizer.save_pretrained, **sizes)


def _options(pair, folder, **fields):
    for seed, (name, scale) in enumerate(SCALES.items()):
        save_adapter(folder / name, pair[0], seed, scale)
    return ServerOptions(
        target=Path(pair[0]),
        drafter=Path(pair[1]),
        num_speculative_tokens=3,
        adapters={name: folder / name for name in SCALES},
        dtype="float32",
        max_model_len=256,
        max_num_seqs=8,
        max_loras=4,
        max_lora_rank=8,
        structured_outputs={"backend": "xgrammar", "disable_any_whitespace": True},
        **fields,
    )


def _write_policy(path, default, depths):
    loads = [{"max_batch_size": 8, "step_time_ratios": [1.0, 1.1, 1.2, 1.3]}]
    payload = {"max_num_speculative_tokens": 3, "loads": loads, "default": default, "adapters": depths}
    path.with_suffix(".new").write_text(json.dumps({"kind": "policy", "schema_version": "1", "payload": payload}))
    path.with_suffix(".new").replace(path)


@pytest.fixture(scope="module", params=[False, True], ids=["sync", "async"])
def served(request, byte_pair, tmp_path_factory):
    """Return a server under a policy, and its policy's path."""
    folder = tmp_path_factory.mktemp("structured")
    policy = folder / "policy.json"
    _write_policy(policy, 0, {})
    options = _options(byte_pair, folder, policy=policy, is_async_scheduling=request.param)
    with VllmServer(options, log=folder / "server.log") as started:
        yield started, policy


def _complete(server, model, prompt, grammar=None, max_tokens=120):
    """Return one answer and why it ended."""
    body = {"model": model, "prompt": prompt, "temperature": 0, "max_tokens": max_tokens}
    if grammar is not None:
        body["structured_outputs"] = {grammar: GRAMMARS[grammar]}
    request = urllib.request.Request(
        f"{server.base_url}/v1/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=180) as answer:
        choice = json.loads(answer.read())["choices"][0]
    return choice["text"], choice["finish_reason"]


PROMPTS = ("the quick brown", "maybe 0123")
JOBS = [(model, prompt, g) for prompt in PROMPTS for model in ("base", *SCALES) for g in (*GRAMMARS, None)]


def _mixed(server):
    """Return the answers of all jobs, eight in a batch: every grammar and none, every adapter."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda job: _complete(server, *job), JOBS))


def _set_policy(server, policy, default, depths):
    loaded = parse_counters(server.metrics_text()).num_policies.get("loaded", 0)
    _write_policy(policy, default, depths)
    for _ in range(100):
        _complete(server, "base", "yes", max_tokens=2)
        if parse_counters(server.metrics_text()).num_policies.get("loaded", 0) > loaded:
            return
    raise AssertionError("the policy was not taken")


def _engine_count(server, name):
    lines = [line for line in server.metrics_text().splitlines() if line.startswith(f"vllm:{name}_total")]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines)


def _check_valid(answers):
    held = [(job, answer) for job, answer in zip(JOBS, answers, strict=True) if job[2] is not None]
    odd = [(job, answer) for job, answer in held if answer[1] != "stop" or not IS_VALID[job[2]](answer[0])]
    assert odd == []


def test_output_keeps_to_its_grammar_and_is_that_of_depth_zero_at_every_depth(served):
    server, policy = served
    plain = _mixed(server)
    _check_valid(plain)
    assert len({answer[0] for answer in plain}) > len(GRAMMARS) * 2  # adapters and prompts make a difference
    _set_policy(server, policy, 2, DEPTHS)
    before = parse_counters(server.metrics_text())
    names = ("spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens")
    engine = [_engine_count(server, name) for name in names]
    assert _mixed(server) == plain
    found = parse_counters(server.metrics_text()).since(before)
    assert set(found) == {"base", "weak", "strong"}
    ours = [sum(getattr(counts, name.removeprefix("spec_decode_")) for counts in found.values()) for name in names]
    assert ours == [_engine_count(server, name) - start for name, start in zip(names, engine, strict=True)]
    assert found["strong"].num_draft_tokens <= found["strong"].num_drafts
    assert sum(counts.num_accepted_tokens for counts in found.values()) > 0
