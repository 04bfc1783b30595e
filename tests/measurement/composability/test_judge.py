"""From the end of a process and its report to one status."""

import pytest

from lora_spec.engines.limited_process import ProcessEnd
from lora_spec.measurement.composability.judge import JudgeSettings, judge_end, judge_report

SETTINGS = JudgeSettings(0.001, 4.0, "a+", "a", 3, 10, frozenset({"json"}))
FINE = ProcessEnd(0, 1.0, ("last words",))
AXES = {
    "method": "none",
    "lora": "one",
    "prefix_caching": True,
    "execution": "compiled",
    "sampler": "greedy",
    "structured_output": False,
}
REFERENCES = {
    "json/0/free": {"token_ids": [3, 4], "top_logprobs": [[[3, 0.0], [9, -5.0]]] * 2},
    "base/0/free": {"token_ids": [1, 2], "top_logprobs": [[[1, 0.0], [9, -5.0]]] * 2},
}


def _error(kind, stage, message="no"):
    return {"stage": stage, "exception": {"type": kind, "message": message}}


def _report(tokens=(3, 4), **more):
    output = {"token_ids": list(tokens), "finish_reason": "length", "text": "aa", "tokens_per_step": [1, 1]}
    force = {"execution": "compiled", "prefix_caching": True}
    return {"outputs": {"json/0/free": output}, "counters": None, "in_force": force, "stage": "done", **more}


@pytest.mark.parametrize(
    ("end", "report", "status"),
    [
        (FINE, _error("ValueError", "start"), "refused"),
        (FINE, _error("ImportError", "start"), "refused"),
        (FINE, _error("RuntimeError", "start"), "crashed"),
        (FINE, _error("VLLMValidationError", "generate"), "refused"),
        (FINE, _error("ValueError", "generate"), "crashed"),
        (ProcessEnd(-9, 1.0, ()), {"stage": "generate", "exception": None}, "crashed"),
        (ProcessEnd(3, 1.0, ()), None, "crashed"),
        (ProcessEnd(None, 9.0, ()), {"stage": "start", "exception": None}, "timeout"),
    ],
)
def test_a_process_that_did_not_finish_has_a_status_of_its_own(end, report, status):
    assert judge_end(end, report)["status"] == status


def test_a_refusal_keeps_type_and_message_on_one_line_and_a_crash_its_last_words():
    refusal = judge_end(FINE, _error("ValueError", "start", "not\n  with that"))
    assert refusal["reason"] == "ValueError: not with that"
    assert "log_tail" not in refusal
    crash = judge_end(ProcessEnd(-6, 1.0, ("last words",)), {"stage": "generate", "exception": None})
    assert crash["reason"] == "signal 6 in stage generate"
    assert crash["log_tail"] == ["last words"]


def test_a_scoring_pass_that_died_leaves_the_rest_to_be_judged():
    assert judge_end(FINE, _error("OSError", "score")) is None
    assert judge_end(ProcessEnd(-9, 1.0, ()), {"stage": "score", "exception": None}) is None
    assert judge_end(ProcessEnd(-11, 1.0, ()), {"stage": "done", "exception": None}) is None
    axes = {**AXES, "sampler": "temperature_greedy_drafts"}
    verdict = judge_report(axes, _report(), ["json/0/free"], REFERENCES, SETTINGS)
    assert verdict["status"] == "works"
    assert "the scoring pass died" in verdict["reason"]


def test_a_cell_works_if_every_check_holds():
    verdict = judge_report(AXES, _report(), ["json/0/free"], REFERENCES, SETTINGS)
    assert (verdict["status"], verdict["reason"]) == ("works", "every check holds")
    assert [check["name"] for check in verdict["checks"]] == ["requests_finish", "texts", "adapter_applied", "counters"]


def test_one_wrong_check_makes_a_cell_wrong_and_is_its_reason():
    verdict = judge_report(AXES, _report(tokens=(1, 2)), ["json/0/free"], REFERENCES, SETTINGS)
    assert verdict["status"] == "wrong"
    assert "json/0/free is the text of base" in verdict["reason"]
    assert "adapter_applied: served as the base" in verdict["reason"]


def test_a_setting_that_the_engine_replaced_is_told():
    report = _report(in_force={"execution": "eager", "prefix_caching": True})
    verdict = judge_report(AXES, report, ["json/0/free"], REFERENCES, SETTINGS)
    assert verdict["replaced"] == {"execution": "eager"}


def test_requests_that_did_not_end_are_not_judged_further():
    verdict = judge_report(AXES, _report(), ["json/0/free", "json/1/free"], REFERENCES, SETTINGS)
    assert [check["name"] for check in verdict["checks"]] == ["requests_finish"]
    assert verdict["status"] == "wrong"


def test_sampling_under_a_grammar_is_held_to_the_grammar_and_says_what_it_cannot_compare():
    axes = {**AXES, "sampler": "temperature_greedy_drafts", "structured_output": True}
    verdict = judge_report(axes, _report(), ["json/0/free"], REFERENCES, SETTINGS)
    outcomes = {check["name"]: check["outcome"] for check in verdict["checks"]}
    assert outcomes == {"requests_finish": "ok", "grammar": "ok", "texts": "unknown", "counters": "ok"}
    assert verdict["reason"] == "texts: not comparable (sampled under a grammar)"
