"""A stand-in for the program of a cell: writes a report as a faultless engine would, or commits the fault it is told.

FAKE_CELL is a JSON object of fault by speculation method: hang, die, refuse, ignore_adapter, impossible_counters,
stale_text, half (dies after the first report), silent (exits with 0 and no report), quits (exits with 0 after the
first report), garbled (leaves half a report and exits with 0).
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

NUM_TOKENS = 6
SERVED: dict[int, str] = {}


def weights_of(lora):
    """Return what tells an adapter's weights apart, read anew for every request: this engine has no caches."""
    return hashlib.sha256((Path(lora["path"]) / "adapter_model.safetensors").read_bytes()).hexdigest()


def text_of(request, *, is_ignored):
    lora = None if is_ignored else request["lora"]
    seed = f"{request['message']} {weights_of(lora) if lora else 'base'} {request['pattern']}"
    return list(hashlib.sha256(seed.encode()).digest()[:NUM_TOKENS])


def output_of(request, fault):
    tokens = text_of(request, is_ignored=fault == "ignore_adapter")
    if fault == "stale_text":
        tokens[-1] += 1
    return {
        "prompt_token_ids": [1, 2, 3],
        "tokens_per_step": [1, *([2] if speculates else [1, 1]), *[1] * (NUM_TOKENS - 3)],
        "token_ids": tokens,
        "text": '{"topic": "a", "rating": 0}' if request["pattern"] else "words",
        "finish_reason": "stop",
        "top_logprobs": [[[token, -0.1], [999, -5.0]] for token in tokens],
    }


spec, report_path = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
options = spec["engine_options"]
method = (options.get("speculative_config") or {"method": "none"})["method"]
speculates = method != "none"
fault = json.loads(os.environ.get("FAKE_CELL", "{}")).get(method)
print(f"fake cell {method} in {Path.cwd()}", flush=True)
if fault == "hang":
    time.sleep(600)
if fault == "die":
    os.abort()
if fault == "garbled":
    report_path.write_text('{"stage": "done", "outp')
if fault in ("silent", "garbled"):
    sys.exit(0)
report = {"stage": "start", "exception": None}
if fault == "refuse":
    report["exception"] = {"type": "ValueError", "message": "this\n   cannot be"}
report_path.write_text(json.dumps(report))
if fault in ("refuse", "quits"):
    sys.exit(0)
if fault == "half":
    sys.exit(3)

outputs = {}
for wave in spec["waves"]:
    if wave["replace"]:
        source, folder = map(Path, wave["replace"])
        folder.mkdir(parents=True, exist_ok=True)
        for file in source.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
    outputs |= {request["request_id"]: output_of(request, fault) for request in wave["requests"]}
num = len(outputs)
counters = {"num_drafts": num, "num_draft_tokens": 3 * num, "num_accepted_tokens": num}
counters["num_accepted_tokens_per_pos"] = [0, num, 0] if fault == "impossible_counters" else [num, 0, 0]
sure = {"gaps": [0.0] * NUM_TOKENS, "surprisal": 3.0, "entropy": 3.0, "variance": 1.0, "log_ratio_to_base": 2.0}
report |= {
    "stage": "done",
    "start_s": 1.0,
    "in_force": {
        "method": method,
        "prefix_caching": options["enable_prefix_caching"],
        "chunked_prefill": options["enable_chunked_prefill"],
        "execution": "eager" if options["enforce_eager"] else "compiled",
        "scheduling": "sync",
    },
    "outputs": outputs,
    "step_ms": [10.0, 30.0, 20.0],
    "counters": counters if speculates else None,
    "prefix_cache": {"queries": 10, "hits": 4},
    "peak_rss_mib": 100.0,
    "scores": dict.fromkeys(outputs, sure) if spec["scored_adapters"] is not None else None,
}
report_path.write_text(json.dumps(report))
