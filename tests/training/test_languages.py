"""Sentences in other languages against the rules of their grammars, and Pig Latin against its own."""

import re
from collections import Counter

import pytest

from lora_spec.training.domains import find_domain
from lora_spec.training.domains.french import FRENCH
from lora_spec.training.domains.german import GERMAN
from lora_spec.training.domains.pig_latin import pig_latin
from lora_spec.training.domains.sentences import Sentence
from lora_spec.training.domains.translation import SPANISH


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        (SPANISH, "La cocinera cansada espera en la calle por la noche."),
        (FRENCH, "La cuisinière fatiguée attend dans la rue la nuit."),
        (GERMAN, "Nachts wartet die müde Köchin auf der Straße."),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_sentence_is_said_as_a_speaker_would(language, expected):
    sentence = Sentence("cook", "tired", "waits", "in the street", "at night")
    assert sentence.to_english() == "The tired cook waits in the street at night."
    assert language.translate(sentence) == expected


@pytest.mark.parametrize("language", [SPANISH, FRENCH, GERMAN], ids=lambda language: language.name)
def test_a_language_translates_the_same_english_words(language):
    for part in ("nouns", "adjectives", "verbs", "places", "times"):
        assert set(getattr(language, part)) == set(getattr(SPANISH, part)), part
    assert {len(forms) for forms in language.adjectives.values()} == {len(language.articles)}


def test_french_adjectives_agree_and_a_few_stand_before_the_noun():
    feminine = {"petite", "noire", "fatiguée", "grande", "heureuse", "nouvelle"}
    masculine = {"petit", "noir", "fatigué", "grand", "heureux", "nouveau"}
    before = {"petit", "petite", "grand", "grande", "jeune", "nouveau", "nouvelle"}
    for example in find_domain("french").examples("train", num=200, seed=0):
        for sentence in re.findall(r"[^.]+\.", example.answer):
            article, *phrase = sentence.split()[:3]
            assert not set(phrase) & (masculine if article == "La" else feminine), sentence
            assert phrase[1] not in before, sentence


def test_german_verb_is_second_and_genders_and_cases_agree():
    verbs = {"schläft", "isst", "singt", "wartet", "arbeitet", "rennt", "liest", "tanzt", "spielt", "spaziert"}
    for example in find_domain("german").examples("train", num=200, seed=0):
        for sentence in re.findall(r"[^.]+\.", example.answer):
            words = sentence.removesuffix(".").replace("Jeden Tag", "Jeden_Tag").split()
            _, verb, article, adjective, noun, preposition, *_ = words
            assert verb in verbs, sentence
            assert adjective.endswith("e"), sentence
            assert noun[0].isupper(), sentence
            if noun.endswith("in"):
                assert article == "die", sentence
            if noun.endswith("chen"):
                assert article == "das", sentence
            # Where, not where to: "in das" and "an das" would be the accusative.
            assert preposition in {"im", "am", "in", "auf"}, sentence
            assert preposition in {"im", "am"} or words[6] == "der", sentence


def test_pig_latin_follows_the_rules_that_children_learn():
    assert pig_latin("apple, string, queen, square and yellow rhythm!") == (
        "appleway, ingstray, eenquay, aresquay andway ellowyay ythmrhay!"
    )
    assert pig_latin("The Ox waits.") == "Ethay Oxway aitsway."


def test_pig_latin_keeps_the_letters_of_each_word():
    for example in find_domain("pig_latin").examples("train", num=100, seed=0):
        words = example.prompt.removeprefix("In Pig Latin: ").split()
        for word, turned in zip(words, example.answer.split(), strict=True):
            added = Counter(turned.lower()) - Counter(word.lower())
            assert added in (Counter("ay"), Counter("way")), (word, turned)
