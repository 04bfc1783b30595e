"""Simple English sentences and a small grammar that says them in another language, which is data alone."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import LICENSE

# None of the nouns starts with a vowel or a mute h in French, where its article would lose a letter.
_NOUNS = (
    "cat",
    "dog",
    "boy",
    "girl",
    "teacher",
    "doctor",
    "cook",
    "driver",
    "singer",
    "horse",
    "grandmother",
    "brother",
    "sister",
    "neighbour",
    "queen",
)
_ADJECTIVES = ("small", "black", "tired", "tall", "quiet", "young", "happy", "thin", "famous", "new")
_VERBS = ("sleeps", "eats", "sings", "waits", "works", "runs", "reads", "dances", "plays", "walks")
_PLACES = (
    "in the garden",
    "in the kitchen",
    "at school",
    "in the park",
    "on the beach",
    "in the street",
    "at the station",
    "in the library",
    "near the river",
    "near the church",
)
_TIMES = ("today", "every day", "at night", "now")


@dataclass(frozen=True)
class Sentence:
    """What a sentence says, in the English words that every language translates."""

    noun: str
    adjective: str
    verb: str
    place: str
    time: str

    def to_english(self) -> str:
        """Return the sentence in English."""
        return f"The {self.adjective} {self.noun} {self.verb} {self.place} {self.time}."


def draw_sentence(rng: random.Random) -> Sentence:
    """Return a random sentence."""
    return Sentence(*(rng.choice(words) for words in (_NOUNS, _ADJECTIVES, _VERBS, _PLACES, _TIMES)))


@dataclass(frozen=True)
class Language:
    """A language as data: words by their English, and one order of words.

    Parameters
    ----------
    order
        A sentence with the slots ``subject``, ``verb``, ``place`` and ``time``.
    articles
        The definite articles in the nominative, one per gender.
    nouns
        Each with its article, which says its gender.
    adjectives
        Each as one form per gender, in the order of ``articles``; ``{}`` is where the noun stands.
    """

    name: str
    order: str
    articles: tuple[str, ...]
    nouns: Mapping[str, str]
    adjectives: Mapping[str, tuple[str, ...]]
    verbs: Mapping[str, str]
    places: Mapping[str, str]
    times: Mapping[str, str]

    def translate(self, sentence: Sentence) -> str:
        """Return the sentence in this language, article and adjective agreeing with the noun."""
        article, noun = self.nouns[sentence.noun].split(" ")
        adjective = self.adjectives[sentence.adjective][self.articles.index(article)]
        text = self.order.format(
            subject=f"{article} {adjective.format(noun)}",
            verb=self.verbs[sentence.verb],
            place=self.places[sentence.place],
            time=self.times[sentence.time],
        )
        return text[0].upper() + text[1:]

    @property
    def openings(self) -> tuple[str, ...]:
        """Return what a sentence can begin with: an article, or a time where the order puts it first."""
        first = self.times.values() if self.order.startswith("{time}") else self.articles
        return tuple(f"{words[0].upper()}{words[1:]} " for words in first)


def translation_domain(name: str, language: Language) -> ComputedDomain:
    """Return the domain of two English sentences said in a language."""

    def draw(rng: random.Random) -> Example:
        sentences = (draw_sentence(rng), draw_sentence(rng))
        english = " ".join(sentence.to_english() for sentence in sentences)
        return Example(f"In {language.name}: {english}", " ".join(map(language.translate, sentences)))

    return ComputedDomain(
        name=name,
        license=LICENSE,
        description=f"simple English sentences translated into {language.name}",
        draw=draw,
        form=lambda prompt, answer: answer.startswith(language.openings),
    )
