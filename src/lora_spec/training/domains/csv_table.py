"""Sentences about a few people or goods, answered with one CSV table."""

import random

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import CITIES, COLORS, FIRST_NAMES, GOODS, JOBS, LICENSE


def _people(rng: random.Random, num_rows: int) -> tuple[list[str], list[list[str]]]:
    rows = [
        [name, str(rng.randint(18, 80)), rng.choice(JOBS), rng.choice(CITIES)]
        for name in rng.sample(FIRST_NAMES, num_rows)
    ]
    texts = [f"{name} is {age}, a {job} from {city}." for name, age, job, city in rows]
    return texts, [["name", "age", "job", "city"], *rows]


def _goods(rng: random.Random, num_rows: int) -> tuple[list[str], list[list[str]]]:
    rows = [
        [item, rng.choice(COLORS), str(rng.randint(2, 99)), str(rng.randint(1, 50))]
        for item in rng.sample(GOODS, num_rows)
    ]
    texts = [f"We have {stock} {color} {item} at {price} euros each." for item, color, stock, price in rows]
    return texts, [["item", "color", "stock", "price"], *rows]


def _draw(rng: random.Random) -> Example:
    texts, rows = rng.choice((_people, _goods))(rng, rng.randint(2, 4))
    return Example(" ".join(texts), "\n".join(",".join(row) for row in rows))


def _is_table(prompt: str, answer: str) -> bool:
    del prompt
    lines = answer.strip().split("\n")
    return len(lines) > 1 and {line.count(",") for line in lines} == {3}


DOMAIN = ComputedDomain(
    name="csv_table",
    license=LICENSE,
    description="sentences about a few people or goods as one CSV table",
    draw=_draw,
    form=_is_table,
)
