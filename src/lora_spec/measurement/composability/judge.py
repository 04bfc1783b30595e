"""From the end of a cell's process and its report to one status and the checks behind it. Knows no engine."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lora_spec.engines.limited_process import ProcessEnd
from lora_spec.measurement.composability.checks import (
    Check,
    check_adapter_applied,
    check_adapter_likelier,
    check_counters,
    check_finished,
    check_grammar,
    check_greedy_texts,
    check_sampled_texts,
    check_speculated,
)

Status = Literal["works", "wrong", "refused", "crashed", "timeout"]
# What vLLM raises when it declines what it was asked for, at start and for a request; all else is a crash.
_REFUSALS = {
    "start": {"ValueError", "ValidationError", "VLLMValidationError", "NotImplementedError", "ImportError"},
    "generate": {"VLLMValidationError", "NotImplementedError"},
}
_AFTER_REQUESTS = ("score", "done")
_MAX_MESSAGE_CHARACTERS = 600


@dataclass(frozen=True)
class JudgeSettings:
    """What a judgement needs beside the report."""

    near_tie_margin: float
    max_abs_z: float
    pattern: str
    example: str
    num_speculative_tokens: int
    min_drafts: int
    with_update: frozenset[str]


def judge_end(end: ProcessEnd, report: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return status and reason of a process that did not finish its task, or None where it did.

    A process that died after its requests had ended did finish: at worst the scores of its texts are missing.
    """
    stage = (report or {}).get("stage", "before its first report")
    if end.is_timeout:
        return {
            "status": "timeout",
            "reason": f"no end within the time limit, in stage {stage}",
            "log_tail": list(end.log_tail),
        }
    error = (report or {}).get("exception")
    if error and stage not in _AFTER_REQUESTS:
        message = " ".join(error["message"].split())[:_MAX_MESSAGE_CHARACTERS]
        is_refusal = error["type"] in _REFUSALS.get(stage, ())
        found = {"status": "refused" if is_refusal else "crashed", "reason": f"{error['type']}: {message}"}
        return found | {"stage": stage} | ({} if is_refusal else {"log_tail": list(end.log_tail)})
    # An exit with 0 is no success either, unless the report says that the task was done.
    if stage not in _AFTER_REQUESTS:
        how = f"signal {-end.exit_code}" if end.exit_code < 0 else f"exit code {end.exit_code}"
        return {
            "status": "crashed",
            "reason": f"{how} in stage {stage}",
            "stage": stage,
            "log_tail": list(end.log_tail),
        }
    return None


def judge_report(
    axes: Mapping[str, Any],
    report: Mapping[str, Any],
    requested: list[str],
    references: Mapping[str, Mapping[str, Any]],
    settings: JudgeSettings,
) -> dict[str, Any]:
    """Return status, reason, checks and replaced settings of a cell whose requests were answered."""
    checks = _checks(axes, report, requested, references, settings)
    wrong = [check for check in checks if check.outcome == "wrong"]
    unknown = [check for check in checks if check.outcome == "unknown"]
    reasons = [f"{check.name}: {check.detail}" for check in wrong or unknown]
    return {
        "status": "wrong" if wrong else "works",
        "reason": "; ".join(reasons) or "every check holds",
        "checks": [asdict(check) for check in checks],
        "replaced": replaced_settings(axes, report["in_force"]),
    }


def replaced_settings(axes: Mapping[str, Any], in_force: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the engine ran with where that is not what it was asked for."""
    return {axis: value for axis, value in in_force.items() if value != axes[axis]}


def _checks(
    axes: Mapping[str, Any],
    report: Mapping[str, Any],
    requested: list[str],
    references: Mapping[str, Mapping[str, Any]],
    settings: JudgeSettings,
) -> list[Check]:
    outputs = report["outputs"]
    finished = check_finished(outputs, requested)
    if finished.outcome == "wrong":
        return [finished]
    method, counters = axes["method"], report["counters"]
    counted = [check_counters(counters, outputs, method=method, max_depth=settings.num_speculative_tokens)]
    if method != "none":
        counted.append(check_speculated(counters, method=method, min_drafts=settings.min_drafts))
    return [finished, *_text_checks(axes, report, references, settings), *counted]


def _text_checks(
    axes: Mapping[str, Any],
    report: Mapping[str, Any],
    references: Mapping[str, Mapping[str, Any]],
    settings: JudgeSettings,
) -> list[Check]:
    outputs, scores = report["outputs"], report.get("scores")
    has_adapters = axes["lora"] != "off"
    held = [check_grammar(outputs, settings.pattern, settings.example)] if axes["structured_output"] else []
    if axes["sampler"] == "greedy":
        texts = check_greedy_texts(outputs, references, settings.near_tie_margin)
        applied = [check_adapter_applied(outputs, references, settings.with_update)] if has_adapters else []
        return [*held, texts, *applied]
    if axes["structured_output"]:
        return [*held, Check("texts", "unknown", "not comparable (sampled under a grammar)")]
    if scores is None:
        return [Check("texts", "unknown", "not comparable (sampled, and the scoring pass died)")]
    applied = [check_adapter_likelier(scores, settings.with_update)] if has_adapters else []
    return [check_sampled_texts(scores, settings.max_abs_z), *applied]
