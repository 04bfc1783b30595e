"""Overlap with a training text, by hand-made texts whose counts are known."""

import json
from pathlib import Path

import pytest

from lora_spec.errors import TrainingInputError
from lora_spec.results import read_json
from lora_spec.training.domains import DOMAINS, Example
from lora_spec.training.frozen_prompts import FrozenPrompts
from lora_spec.training.overlap import (
    NGRAM_SIZES,
    NUM_PAIRS,
    ChatCutter,
    OverlapPayload,
    TextIndex,
    TrainingText,
    answer_share,
    ngrams,
    overlap_of_domains,
)
from lora_spec.training.own_answers import OwnAnswers
from lora_spec.typed import check_type

SHIPPED = Path(__file__).parents[2] / "reference/cpu/domain_overlap.json"


class OneTokenPerCharacter:
    """A tokenizer whose token ids are code points and whose turn ends with '|'."""

    eos_token_id = ord("|")

    def apply_chat_template(self, messages, *, tokenize, add_generation_prompt):
        return f"user: {messages[0]['content']} model: "

    def encode(self, text, *, add_special_tokens):
        return [ord(character) for character in text]


TOKENIZER = OneTokenPerCharacter()


def _tokens(text):
    return tuple(map(ord, text))


def _counts(overlap):
    return {count["n"]: (count["num_found"], count["num_ngrams"]) for count in overlap["ngrams"]}


def test_a_text_of_length_m_has_m_minus_n_plus_1_ngrams_and_never_fewer_than_none():
    assert [len(list(ngrams(_tokens("abcd"), n))) for n in (1, 2, 4, 5, 8)] == [4, 3, 1, 0, 0]


def test_a_text_covers_itself_and_an_unknown_alphabet_not_at_all():
    index = TextIndex([_tokens("the quick brown fox")])
    same, other = index.overlap_of([_tokens("the quick brown fox")]), index.overlap_of([_tokens("0123456789")])
    assert (same["num_texts"], same["num_exact"], other["num_exact"]) == (1, 1, 0)
    assert all(found == total > 0 for found, total in _counts(same).values())
    assert all(found == 0 < total for found, total in _counts(other).values())


def test_no_ngram_crosses_the_border_of_two_texts():
    index = TextIndex([_tokens("ab"), _tokens("cd")])
    assert _counts(index.overlap_of([_tokens("abcd")])) == {1: (4, 4), 2: (2, 3), 4: (0, 1), 8: (0, 0)}


def test_places_count_and_not_kinds():
    index = TextIndex([_tokens("ab")])
    assert _counts(index.overlap_of([_tokens("abababab")]))[2] == (4, 7)


def test_coverage_never_rises_with_the_length_of_the_ngrams():
    index = TextIndex([_tokens("a sentence of some length, and another one")])
    found = _counts(index.overlap_of([_tokens("another sentence of the same length")]))
    shares = [found[n][0] / found[n][1] for n in NGRAM_SIZES]
    assert shares == sorted(shares, reverse=True)
    assert 0 < shares[1] < 1


def test_the_template_is_cut_off_and_another_one_refused():
    cutter = ChatCutter(TOKENIZER)
    assert cutter.user_tokens(_tokens("user: Hi? model: ")) == _tokens("Hi?")
    with pytest.raises(TrainingInputError, match="chat template"):
        cutter.user_tokens(_tokens("human: Hi? model: "))


def _frozen(domain, prompts):
    return FrozenPrompts("own", "evaluation", domain, tuple(prompts), 64, 0.0, "CC0-1.0", "0" * 64)


def test_a_domain_that_was_trained_on_is_covered_and_one_that_was_not_is_not():
    answers = [Example(f"What is {word}?", f"It is {word}.") for word in map(str, range(1000, 1000 + 3 * NUM_PAIRS))]
    text = TrainingText(
        tuple(_tokens(pair.prompt) for pair in answers), tuple(_tokens(f"{pair.answer}|") for pair in answers)
    )
    own = [_frozen("self_chat", [answers[0].prompt, "unheard"]), _frozen("upper_case", ["ZZZZ"])]
    found = overlap_of_domains(own, text, OwnAnswers(answers, answers), tokenizer=TOKENIZER, pair_seed=0)
    chat, capitals = found["domains"]
    assert chat["evaluation_prompts"]["num_exact"] == 1
    assert capitals["evaluation_prompts"]["num_exact"] == 0
    train = next(pairs for pairs in chat["pairs"] if pairs["split"] == "train")
    assert (train["answers"]["num_texts"], train["answers"]["num_exact"]) == (NUM_PAIRS, NUM_PAIRS)
    assert answer_share(chat, split="train", n=8) == 1
    assert answer_share(capitals, split="train", n=4) < 0.5
    assert found["num_answer_tokens"] == sum(len(pair.answer) + 1 for pair in answers)


def test_the_shipped_record_is_of_every_domain_of_the_pool_and_none_of_its_evaluation_prompts_was_trained_on():
    envelope = read_json(SHIPPED)
    payload = check_type(OverlapPayload, envelope["payload"], str(SHIPPED))
    assert (envelope["kind"], envelope["evidence"], envelope["tier"]) == ("domain_overlap", "measured", "cpu")
    assert {domain["domain"] for domain in payload["domains"]} == set(DOMAINS) - {"python_doc"}
    assert payload["num_trajectories"] == 2 * 3328
    assert sum(domain["evaluation_prompts"]["num_exact"] for domain in payload["domains"]) == 0
    # Chat answers are what the drafter was trained on: the target's own are known, their capitals are not.
    by_name = {domain["domain"]: domain for domain in payload["domains"]}
    own, capitals = (answer_share(by_name[name], split="eval", n=4) for name in ("self_chat", "upper_case"))
    assert own > 0.3 > 0.05 > capitals


def test_the_shipped_record_holds_counts_that_are_possible():
    text = json.loads(SHIPPED.read_text())["payload"]["domains"]
    counts = [count for domain in text for pairs in domain["pairs"] for count in pairs["answers"]["ngrams"]]
    assert all(0 <= count["num_found"] <= count["num_ngrams"] for count in counts)
