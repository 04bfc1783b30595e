"""A one-line task, answered with a small Python function that does it."""

import ast
import random
from dataclasses import dataclass

from lora_spec.training.domains.base import ComputedDomain, Example
from lora_spec.training.domains.vocabulary import COLORS, GOODS, LICENSE


@dataclass(frozen=True)
class _Task:
    """A kind of function: ``words`` and ``body`` share slots, ``verb`` begins the function's name."""

    verb: str
    argument: str
    words: str
    body: str


_TASKS = (
    _Task(
        "count",
        "numbers",
        "counts the numbers above {low}",
        "count = 0\nfor number in numbers:\n    if number > {low}:\n        count += 1\nreturn count",
    ),
    _Task(
        "sum",
        "numbers",
        "adds up the numbers that {few} divides",
        "total = 0\nfor number in numbers:\n    if number % {few} == 0:\n        total += number\nreturn total",
    ),
    _Task(
        "select",
        "numbers",
        "returns the numbers from {low} to {high}",
        "return [number for number in numbers if {low} <= number <= {high}]",
    ),
    _Task(
        "scale",
        "numbers",
        "multiplies each number by {few} and adds {low}",
        "result = []\nfor number in numbers:\n    result.append({few} * number + {low})\nreturn result",
    ),
    _Task(
        "rank",
        "numbers",
        "returns the {few} largest of the numbers below {high}",
        "small = [number for number in numbers if number < {high}]\nreturn sorted(small, reverse=True)[:{few}]",
    ),
    _Task(
        "limit",
        "number",
        "returns the number, but at least {low} and at most {high}",
        "if number < {low}:\n    return {low}\nif number > {high}:\n    return {high}\nreturn number",
    ),
    _Task(
        "filter",
        "words",
        "returns the words that are longer than {few} letters and are not {word}",
        "return [word for word in words if len(word) > {few} and word != '{word}']",
    ),
    _Task(
        "group",
        "words",
        "maps each word but {word} to how often it occurs",
        "counts = {{}}\nfor word in words:\n    if word != '{word}':\n"
        "        counts[word] = counts.get(word, 0) + 1\nreturn counts",
    ),
    _Task(
        "mark",
        "text",
        "replaces {word} by {other} in the text and cuts it after {low} characters",
        "changed = text.replace('{word}', '{other}')\nreturn changed[:{low}]",
    ),
    _Task(
        "look_up",
        "amounts",
        "returns the amount of {word} times {few}, or {low} if there is none",
        "if '{word}' in amounts:\n    return amounts['{word}'] * {few}\nreturn {low}",
    ),
)


def _draw(rng: random.Random) -> Example:
    task = rng.choice(_TASKS)
    word, other, subject = rng.sample(GOODS, 3)
    low, few = rng.randint(10, 60), rng.randint(2, 9)
    slots = {"low": low, "high": low + rng.randint(5, 39), "few": few, "word": word, "other": other}
    words = task.words.format(**slots)
    header = f"{task.verb}_{rng.choice(COLORS)}_{subject}({task.argument})"
    lines = [f"def {header}:", *(f"    {line}" for line in task.body.format(**slots).split("\n"))]
    return Example(f"Write a Python function {header} that {words}.", "\n".join(lines), source=words)


def _is_function(prompt: str, answer: str) -> bool:
    del prompt
    try:
        statements = ast.parse(answer).body
    except (SyntaxError, ValueError):  # a null byte is a ValueError
        return False
    return len(statements) == 1 and isinstance(statements[0], ast.FunctionDef)


DOMAIN = ComputedDomain(
    name="python_code",
    license=LICENSE,
    description="a small Python function that does what one line asks for",
    draw=_draw,
    form=_is_function,
)
