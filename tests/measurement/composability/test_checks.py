"""Each question asked of a report, on small hand-made answers."""

import random
from math import log, sqrt

import pytest

from lora_spec.measurement.composability.checks import (
    begins_match,
    check_adapter_applied,
    check_adapter_likelier,
    check_counters,
    check_finished,
    check_grammar,
    check_greedy_texts,
    check_sampled_texts,
    check_speculated,
    compare_with_reference,
)

PATTERN, EXAMPLE = r'\{"topic": "[a-z ]{1,20}", "rating": [0-9]\}', '{"topic": "a", "rating": 0}'
COUNTERS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_accepted_tokens_per_pos")


def _reference(tokens, *, gap=2.0, second=99):
    return {"token_ids": tokens, "top_logprobs": [[[token, -0.5], [second, -0.5 - gap]] for token in tokens]}


def _output(tokens, **more):
    return {"token_ids": tokens, "finish_reason": "length", "text": "", "tokens_per_step": [1] * len(tokens), **more}


@pytest.mark.parametrize(
    ("tokens", "gap", "likeness"),
    [
        ([1, 2, 3], 2.0, "equal"),
        ([1, 99, 7], 0.0005, "tie"),
        ([1, 99, 3], 2.0, "different"),
        ([1, 50, 3], 0.0005, "different"),
        ([1, 2], 0.0005, "different"),
        ([1, 2, 3, 4], 0.0005, "different"),
    ],
)
def test_a_text_equals_its_reference_ties_with_it_or_differs(tokens, gap, likeness):
    assert compare_with_reference(tokens, _reference([1, 2, 3], gap=gap), 0.001) == likeness


def test_greedy_texts_are_counted_and_a_stray_is_named_with_whose_text_it_is():
    references = {name: _reference(t) for name, t in (("base/0/free", [1, 2]), ("json/0/free", [3, 4]))}
    fine = {"base/0/free": _output([1, 2]), "json/0/free": _output([3, 4])}
    assert check_greedy_texts(fine, references, 0.001).outcome == "ok"
    check = check_greedy_texts({**fine, "base/0/free": _output([3, 4])}, references, 0.001)
    assert check.outcome == "wrong"
    assert "base/0/free is the text of json" in check.detail
    assert check.numbers["different_by"] == ["base"]
    assert check.numbers["num_equal"] == 1


def test_an_adapter_whose_request_got_the_bases_text_was_ignored():
    references = {"base/0/free": _reference([1, 2]), "json/0/free": _reference([3, 4])}
    ignored = {"json/0/free": _output([1, 2])}
    assert check_adapter_applied(ignored, references, {"json"}).outcome == "wrong"
    assert check_adapter_applied({"json/0/free": _output([3, 4])}, references, {"json"}).outcome == "ok"


def test_where_adapter_and_base_write_the_same_nothing_can_be_said():
    references = {"base/0/free": _reference([1, 2]), "zero/0/free": _reference([1, 2])}
    assert check_adapter_applied({"zero/0/free": _output([1, 2])}, references, {"zero"}).outcome == "unknown"
    assert check_adapter_applied({"zero/0/free": _output([1, 2])}, references, set()).outcome == "unknown"


def _sampled(draw, p, num_tokens):
    """Return scores of tokens drawn by ``draw`` and judged under the law that gives 0 with probability p, else 1."""
    entropy = -p * log(p) - (1 - p) * log(1 - p)
    variance = p * log(p) ** 2 + (1 - p) * log(1 - p) ** 2 - entropy**2
    surprisal = sum(-log(p if draw() else 1 - p) for _ in range(num_tokens))
    return {"surprisal": surprisal, "entropy": num_tokens * entropy, "variance": num_tokens * variance}


def test_tokens_drawn_from_the_target_pass_and_greedy_ones_do_not():
    rng = random.Random(0)
    drawn = {f"json/{i}/free": _sampled(lambda: rng.random() < 0.7, 0.7, 40) for i in range(20)}
    assert check_sampled_texts(drawn, 4.0).outcome == "ok"
    greedy = {f"json/{i}/free": _sampled(lambda: True, 0.7, 40) for i in range(20)}
    check = check_sampled_texts(greedy, 4.0)
    assert check.outcome == "wrong"
    # 800 tokens, each log(0.7) + H from its mean: z = sqrt(800) * (-log 0.7 - H) / sd, by hand about -19.
    step = -log(0.7) - drawn["json/0/free"]["entropy"] / 40
    expected = sqrt(800) * step / sqrt(drawn["json/0/free"]["variance"] / 40)
    assert check.numbers["z_adapters"] == pytest.approx(expected)


def test_the_base_and_the_adapters_are_judged_apart():
    good = {"surprisal": 5.0, "entropy": 5.0, "variance": 1.0}
    check = check_sampled_texts({"base/0/free": {**good, "surprisal": 50.0}, "json/0/free": good}, 4.0)
    assert check.outcome == "wrong"
    assert check.detail.startswith("base:")


def test_a_likelihood_that_is_no_number_is_wrong():
    assert check_sampled_texts(
        {"base/0/free": {"surprisal": float("nan"), "entropy": 1, "variance": 1}}, 4.0
    ).outcome == ("wrong")


def test_sampled_text_likelier_under_the_base_means_an_ignored_adapter():
    scores = {"json/0/free": {"log_ratio_to_base": 9.0}, "json/1/free": {"log_ratio_to_base": -2.0}}
    assert check_adapter_likelier(scores, {"json"}).outcome == "ok"
    scores["json/1/free"] = {"log_ratio_to_base": -12.0}
    assert check_adapter_likelier(scores, {"json"}).outcome == "wrong"
    assert check_adapter_likelier(scores, set()).outcome == "unknown"


def test_a_request_without_an_end_or_without_a_token_is_named():
    outputs = {
        "a": _output([1]),
        "b": {**_output([]), "finish_reason": "stop"},
        "c": _output([1], finish_reason="error"),
    }
    assert check_finished(outputs, ["a"]).outcome == "ok"
    for name, words in (("b", "b (stop)"), ("c", "c (error)"), ("d", "d (None)")):
        check = check_finished(outputs, ["a", name])
        assert check.outcome == "wrong"
        assert words in check.detail
    assert check_finished(outputs, outputs).numbers == {"length": 1, "stop": 1, "error": 1}


def _counters(*values):
    return dict(zip(COUNTERS, values, strict=True))


# Two requests of 1 + 3 + 2 and 1 + 1 tokens: five steps, three tokens gained by accepted drafts.
TWO = {"a": _output([0] * 6, tokens_per_step=[1, 3, 2]), "b": _output([0] * 2, tokens_per_step=[1, 1])}


@pytest.mark.parametrize(
    ("counters", "outcome", "words"),
    [
        (_counters(3, 9, 3, [2, 1, 0]), "ok", "agree"),
        (_counters(3, 9, 5, [2, 2, 1]), "ok", "agree"),
        (_counters(3, 9, 2, [2, 0, 0]), "wrong", "-1 accepted tokens"),
        (_counters(9, 27, 3, [2, 1, 0]), "wrong", "not in the texts"),
        (_counters(3, 2, 3, [2, 1, 0]), "wrong", "impossible"),
        (_counters(3, 9, 3, [1, 2, 0]), "wrong", "impossible"),
        (_counters(3, 9, 4, [2, 1, 0]), "wrong", "impossible"),
        (None, "wrong", "no speculation counters"),
        ({"num_drafts": 3}, "wrong", "impossible"),
    ],
)
def test_counters_must_be_possible_and_agree_with_the_tokens(counters, outcome, words):
    check = check_counters(counters, TWO, method="draft_model", max_depth=3)
    assert check.outcome == outcome
    assert words in check.detail


def test_accepted_tokens_beyond_the_cut_are_at_most_a_depth_per_request():
    most = 3 + 2 * 3
    assert check_counters(_counters(5, 15, most, [5, 4, 0]), TWO, method="ngram", max_depth=3).outcome == "ok"
    assert check_counters(_counters(5, 15, most + 1, [5, 5, 0]), TWO, method="ngram", max_depth=3).outcome == "wrong"


@pytest.mark.parametrize(
    ("method", "num_drafts", "outcome"),
    [
        ("draft_model", 10, "ok"),
        ("draft_model", 9, "unknown"),
        ("draft_model", 0, "wrong"),
        ("ngram", 10, "ok"),
        ("ngram", 0, "unknown"),
    ],
)
def test_a_drafter_that_never_drafts_is_wrong_and_a_lookup_may_find_nothing(method, num_drafts, outcome):
    counters = _counters(num_drafts, 3 * num_drafts, 0, [0, 0, 0])
    assert check_speculated(counters, method=method, min_drafts=10).outcome == outcome


def test_without_speculation_nothing_may_be_drafted():
    assert check_counters(None, TWO, method="none", max_depth=3).outcome == "ok"
    assert check_counters(_counters(1, 3, 0, [0, 0, 0]), TWO, method="none", max_depth=3).outcome == "wrong"


@pytest.mark.parametrize("end", range(len('{"topic": "salt and water", "rating": 7}') + 1))
def test_every_beginning_of_a_match_begins_one(end):
    assert begins_match('{"topic": "salt and water", "rating": 7}'[:end], PATTERN, EXAMPLE)


@pytest.mark.parametrize("text", ['{"topic": "Salt', '{"topic": ""', '{"rating"', "x", '{"topic": "a", "rating": 77'])
def test_what_leaves_the_grammar_begins_no_match(text):
    assert not begins_match(text, PATTERN, EXAMPLE)


def test_a_text_that_ended_must_match_whole_and_one_that_was_cut_may_be_a_beginning():
    whole, cut = '{"topic": "salt", "rating": 7}', '{"topic": "sa'
    fine = {"a": _output([1], text=whole, finish_reason="stop"), "b": _output([1], text=cut)}
    check = check_grammar(fine, PATTERN, EXAMPLE)
    assert (check.outcome, check.numbers) == ("ok", {"num_whole": 1, "num_cut": 1})
    assert check_grammar({"a": _output([1], text=cut, finish_reason="stop")}, PATTERN, EXAMPLE).outcome == "wrong"
