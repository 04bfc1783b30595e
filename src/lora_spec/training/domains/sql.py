"""A question about a table whose columns are given, answered with one SQL query."""

import random

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import CITIES, COLORS, FIRST_NAMES, JOBS, LICENSE, MONTHS

# table: (text columns with their values, number columns)
_TABLES: dict[str, tuple[dict[str, tuple[str, ...]], tuple[str, ...]]] = {
    "employees": ({"name": FIRST_NAMES, "job": JOBS, "city": CITIES}, ("age", "salary", "years")),
    "orders": ({"customer": FIRST_NAMES, "city": CITIES, "month": MONTHS}, ("quantity", "price", "discount")),
    "products": ({"color": COLORS, "maker": FIRST_NAMES, "origin": CITIES}, ("price", "stock", "weight")),
    "flights": ({"origin": CITIES, "destination": CITIES, "month": MONTHS}, ("distance", "seats", "delay")),
    "students": ({"name": FIRST_NAMES, "city": CITIES, "birth_month": MONTHS}, ("grade", "age", "credits")),
    "rooms": ({"hotel_city": CITIES, "wall_color": COLORS, "guest": FIRST_NAMES}, ("beds", "price", "floor")),
}


def _question(rng: random.Random, table: str) -> tuple[str, str]:
    texts, numbers = _TABLES[table]
    column, number = rng.choice(list(texts)), rng.choice(numbers)
    value, bound, top = rng.choice(texts[column]), rng.randint(1, 500), rng.randint(2, 20)
    where = f"WHERE {column} = '{value}'"
    return rng.choice(
        (
            (f"How many {table} have {column} {value}?", f"SELECT COUNT(*) FROM {table} {where};"),
            (
                f"What is the average {number} of {table} with {column} {value}?",
                f"SELECT AVG({number}) FROM {table} {where};",
            ),
            (
                f"Show the {table} with {number} above {bound} and {column} {value}.",
                f"SELECT * FROM {table} {where} AND {number} > {bound};",
            ),
            (
                f"Give the {top} {table} with the highest {number} for {column} {value}.",
                f"SELECT * FROM {table} {where} ORDER BY {number} DESC LIMIT {top};",
            ),
            (
                f"For each {column}, what is the total {number} of {table} where {number} is above {bound}?",
                f"SELECT {column}, SUM({number}) FROM {table} WHERE {number} > {bound} GROUP BY {column};",
            ),
            (
                f"Which {column} has more than {bound} {table}?",
                f"SELECT {column} FROM {table} GROUP BY {column} HAVING COUNT(*) > {bound};",
            ),
        )
    )


def _draw(rng: random.Random) -> Example:
    table = rng.choice(list(_TABLES))
    texts, numbers = _TABLES[table]
    question, query = _question(rng, table)
    return Example(f"Table {table}({', '.join((*texts, *numbers))}). {question}", query)


def _is_query(prompt: str, answer: str) -> bool:
    del prompt
    return answer.startswith("SELECT ") and answer.rstrip().endswith(";")


DOMAIN = ComputedDomain(
    name="sql",
    license=LICENSE,
    description="one SQL query that answers a question about a table with given columns",
    draw=_draw,
    form=_is_query,
)
