"""One cell's process: start vLLM as told, send waves of requests, write down what happened. Judges nothing.

``python -m lora_spec.engines.vllm_cell SPEC REPORT``. The report is written anew after every stage, so that a process
that dies leaves what it had seen. An exception of vLLM ends the process with exit code 0: it is part of the report.
"""

import json
import resource
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lora_spec.engines.cell_spec import CellRequest, CellSpec, LoraRef
from lora_spec.engines.text_scores import ScoredText, score_texts
from lora_spec.engines.vllm_environment import import_vllm
from lora_spec.results import write_json_atomically

_COUNTERS = "vllm:spec_decode_"
_FORBIDDEN = -1e9


def main(spec_path: Path, report_path: Path) -> None:
    """Run one cell and write its report."""
    spec = CellSpec.from_dict(json.loads(spec_path.read_text()))
    report: dict[str, Any] = {"stage": "start", "exception": None}
    write_json_atomically(report_path, report)
    try:
        for stage, part in _stages(spec, report):
            report |= part | {"stage": stage}
            write_json_atomically(report_path, report)
    except Exception as error:  # whatever vLLM raises is the observation
        traceback.print_exc()
        report["exception"] = {"type": type(error).__name__, "message": str(error)}
        write_json_atomically(report_path, report)


def _stages(spec: CellSpec, report: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (the stage that begins, what the one before adds to the report)."""
    vllm = import_vllm(kv_cache_gib=spec.kv_cache_gib)
    started = time.perf_counter()
    llm = vllm.LLM(**spec.engine_options)
    yield "generate", {"start_s": time.perf_counter() - started, "in_force": _in_force(llm)}
    run = _Run(vllm, llm)
    for wave in spec.waves:
        if wave.replace:
            source, folder = wave.replace
            shutil.copytree(source, folder, dirs_exist_ok=True)
        run.send(wave.requests)
        yield "generate", {"outputs": run.outputs, "step_ms": run.step_ms}
    yield "score", {**_read_metrics(llm), "peak_rss_mib": _peak_rss_mib()}
    llm.llm_engine.engine_core.shutdown()
    if spec.scored_adapters is not None:
        yield "score", {"scores": _scores(spec, report["outputs"])}
    yield "done", {}


class _Run:
    """Drives the engine step by step; ``step_ms`` are decode steps, those without a prompt's first token."""

    def __init__(self, vllm: Any, llm: Any) -> None:
        self._vllm = vllm
        self._engine = llm.llm_engine
        self._tokenizer = llm.get_tokenizer()
        self.outputs: dict[str, dict[str, Any]] = {}
        self.step_ms: list[float] = []

    def send(self, requests: tuple[CellRequest, ...]) -> None:
        """Send requests together and step until all have ended."""
        for request in requests:
            ids = self._encode(request.message)
            self.outputs[request.request_id] = {"prompt_token_ids": ids, "tokens_per_step": []}
            self._engine.add_request(
                request.request_id,
                {"prompt_token_ids": ids},
                self._sampling(request),
                lora_request=_lora_request(request.lora),
            )
        while self._engine.has_unfinished_requests():
            self._step()

    def _encode(self, message: str) -> list[int]:
        text = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
        )
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _sampling(self, request: CellRequest) -> Any:
        held = self._vllm.sampling_params.StructuredOutputsParams(regex=request.pattern) if request.pattern else None
        return self._vllm.SamplingParams(
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            logprobs=request.num_logprobs,
            structured_outputs=held,
        )

    def _step(self) -> None:
        started = time.perf_counter()
        outputs = self._engine.step()
        elapsed_ms = 1e3 * (time.perf_counter() - started)
        is_decoding = bool(outputs)
        for output in outputs:
            seen, first = self.outputs[output.request_id], output.outputs[0]
            is_decoding &= bool(seen["tokens_per_step"])
            seen["tokens_per_step"].append(len(first.token_ids) - sum(seen["tokens_per_step"]))
            if output.finished:
                seen |= _finished(first)
        if is_decoding:
            self.step_ms.append(elapsed_ms)


def _finished(output: Any) -> dict[str, Any]:
    return {
        "token_ids": list(output.token_ids),
        "text": output.text,
        "finish_reason": str(output.finish_reason),
        "top_logprobs": output.logprobs and [_two_best(position) for position in output.logprobs],
    }


def _two_best(position: Any) -> list[tuple[int, float]]:
    """Return the two most likely tokens; JSON has no minus infinity for those that a grammar forbids."""
    pairs = ((token, max(entry.logprob, _FORBIDDEN)) for token, entry in position.items())
    return sorted(pairs, key=lambda pair: -pair[1])[:2]


def _lora_request(lora: LoraRef | None) -> Any:
    if lora is None:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest(lora.name, lora.int_id, lora.path, load_inplace=lora.load_inplace)


def _in_force(llm: Any) -> dict[str, Any]:
    """Return the axis values that vLLM really runs with, by its own final configuration."""
    config = llm.llm_engine.vllm_config
    speculation = config.speculative_config
    return {
        "method": speculation.method if speculation else "none",
        "prefix_caching": bool(config.cache_config.enable_prefix_caching),
        "chunked_prefill": bool(config.scheduler_config.enable_chunked_prefill),
        "execution": "compiled" if int(config.compilation_config.mode) else "eager",
        "scheduling": "async" if config.scheduler_config.async_scheduling else "sync",
    }


def _read_metrics(llm: Any) -> dict[str, Any]:
    """Return the speculation counters (None where there are none) and those of the prefix cache."""
    found = {metric.name: metric for metric in llm.get_metrics()}
    counters = {
        name.removeprefix(_COUNTERS): metric.values if hasattr(metric, "values") else metric.value
        for name, metric in found.items()
        if name.startswith(_COUNTERS)
    }
    caches = {name: found[f"vllm:prefix_cache_{name}"].value for name in ("queries", "hits")}
    return {"counters": counters or None, "prefix_cache": caches}


def _peak_rss_mib() -> float:
    # Linux reports KiB.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _scores(spec: CellSpec, outputs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    requests = {name: request for name, request in spec.requests.items() if request.pattern is None}
    texts = [
        ScoredText(name, tuple(out["prompt_token_ids"]), tuple(out["token_ids"]), request.lora and request.lora.name)
        for name, request in requests.items()
        if (out := outputs[name]).get("token_ids")
    ]
    return score_texts(
        spec.engine_options["model"],
        spec.scored_adapters or {},
        texts,
        temperatures={name: request.temperature for name, request in requests.items()},
        num_threads=spec.num_threads,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
