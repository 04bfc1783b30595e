"""Sums, differences and products of small whole numbers, worked out tens first."""

import random
import re

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import LICENSE


def _sum(a: int, b: int) -> tuple[str, str]:
    tens, ones = a // 10 * 10 + b // 10 * 10, a % 10 + b % 10
    steps = f"{a // 10 * 10} + {b // 10 * 10} + {a % 10} + {b % 10} = {tens} + {ones}"
    return f"{a} + {b}", f"{steps} = {tens + ones}"


def _difference(a: int, b: int) -> tuple[str, str]:
    high, low = max(a, b), min(a, b)
    tens = low // 10 * 10
    return f"{high} - {low}", f"{high} - {tens} - {low % 10} = {high - tens} - {low % 10} = {high - low}"


def _product(a: int, b: int) -> tuple[str, str]:
    factor, tens, ones = a % 8 + 2, b // 10 * 10, b % 10
    steps = f"{factor} × {tens} + {factor} × {ones} = {factor * tens} + {factor * ones}"  # noqa: RUF001
    return f"{factor} × {b}", f"{steps} = {factor * b}"  # noqa: RUF001


def _draw(rng: random.Random) -> Example:
    expression, steps = rng.choice((_sum, _difference, _product))(rng.randint(11, 99), rng.randint(11, 99))
    question = rng.choice(("What is {}?", "Compute {}.", "Please work out {}.", "How much is {}?"))
    return Example(question.format(expression), f"{expression} = {steps}", source=expression)


def _ends_in_number(prompt: str, answer: str) -> bool:
    del prompt
    return re.search(r" = -?\d+\s*$", answer) is not None


DOMAIN = ComputedDomain(
    name="arithmetic",
    license=LICENSE,
    description="sums, differences and products of whole numbers, worked out in steps",
    draw=_draw,
    form=_ends_in_number,
)
