"""A short list of words or numbers, answered with the same list in the order asked for."""

import random
import re
from collections.abc import Iterable

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import COLORS, GOODS, JOBS, LICENSE

_WORDS = (*GOODS, *JOBS, *COLORS)
# question, whether the order is turned round
_WORD_ORDERS = (("Sort these words from A to Z", False), ("Sort these words from Z to A", True))
_NUMBER_ORDERS = (
    ("Sort these numbers from smallest to largest", False),
    ("Sort these numbers from largest to smallest", True),
)


def _draw_words(rng: random.Random) -> Example:
    question, is_reversed = rng.choice(_WORD_ORDERS)
    words = rng.sample(_WORDS, rng.randint(10, 16))
    return _example(question, words, sorted(words, reverse=is_reversed))


def _draw_numbers(rng: random.Random) -> Example:
    question, is_reversed = rng.choice(_NUMBER_ORDERS)
    numbers = rng.sample(range(2, 1000), rng.randint(7, 12))
    return _example(question, map(str, numbers), map(str, sorted(numbers, reverse=is_reversed)))


def _example(question: str, items: Iterable[str], ordered: Iterable[str]) -> Example:
    answer = ", ".join(ordered)
    return Example(f"{question}: {', '.join(items)}", answer, source=answer)


def _draw(rng: random.Random) -> Example:
    return rng.choice((_draw_words, _draw_numbers))(rng)


def _is_list(prompt: str, answer: str) -> bool:
    return re.fullmatch(r"\w+(, \w+)+", answer.strip()) is not None and answer.count(",") == prompt.count(",")


DOMAIN = ComputedDomain(
    name="sorting",
    license=LICENSE,
    description="a short list of words or numbers in the order asked for",
    draw=_draw,
    form=_is_list,
)
