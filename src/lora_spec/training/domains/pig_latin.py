"""A short sentence said in Pig Latin: each word gives its first consonants to its end, so few tokens stay."""

import random
import re

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import CITIES, COLORS, FIRST_NAMES, GOODS, JOBS, LICENSE

_VERBS = ("bought", "sold", "found", "lost", "painted", "cleaned", "dropped", "brought", "wanted", "counted", "hid")
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty")
_PLACES = ("near the station", "behind the school", "in a shop", "at the market", "beside a quiet street")
# The u of qu goes with its q, and y is a consonant where a vowel follows it.
_FIRST_CONSONANTS = re.compile(r"(?:[^aeiouy]?qu|y(?=[aeiou])|[^aeiouy]*)", re.IGNORECASE)


def pig_latin(text: str) -> str:
    """Return the text in Pig Latin: consonants to the end and "ay", or "way" after a vowel; capitals stay in front."""
    return re.sub(r"[^\W\d_]+", lambda found: _pig_latin_word(found[0]), text)


def _pig_latin_word(word: str) -> str:
    onset = _FIRST_CONSONANTS.match(word)[0]
    turned = f"{word[len(onset) :]}{onset}ay" if onset else f"{word}way"
    return turned.capitalize() if word[0].isupper() else turned


def _draw(rng: random.Random) -> Example:
    name, job, verb, number = rng.choice(FIRST_NAMES), rng.choice(JOBS), rng.choice(_VERBS), rng.choice(_NUMBERS)
    color, item, place, city = rng.choice(COLORS), rng.choice(GOODS), rng.choice(_PLACES), rng.choice(CITIES)
    sentence = rng.choice(
        (
            f"{name} the {job} {verb} {number} {color} {item} {place} in {city}.",
            f"In {city} {name} {verb} {number} {color} {item} {place} for the {job}.",
            f"The {job} from {city} {verb} {number} {color} {item} {place} with {name}.",
        )
    )
    return Example(f"In Pig Latin: {sentence}", pig_latin(sentence), source=sentence)


def _ends_in_ay(prompt: str, answer: str) -> bool:
    del prompt
    # The last word may be cut off by the token cap.
    words = re.findall(r"[^\W\d_]+", answer)[:-1]
    return bool(words) and sum(word.endswith("ay") for word in words) >= 0.9 * len(words)


DOMAIN = ComputedDomain(
    name="pig_latin",
    license=LICENSE,
    description="a short sentence said in Pig Latin",
    draw=_draw,
    form=_ends_in_ay,
)
