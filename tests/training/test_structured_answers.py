"""Sorted lists, XML and code, each against an oracle that does not share their generator."""

import ast
import re
from collections import Counter
from itertools import pairwise
from xml.etree import ElementTree

from lora_spec.training.domains import find_domain


def test_a_sorted_list_is_sorted_and_has_the_items_of_the_prompt():
    directions = set()
    for example in find_domain("sorting").examples("train", num=200, seed=0):
        question, given = example.prompt.split(": ")
        items = example.answer.split(", ")
        assert Counter(items) == Counter(given.split(", "))
        values = [int(item) for item in items] if "numbers" in question else items
        is_descending = question.endswith(("from Z to A", "from largest to smallest"))
        directions.add((type(values[0]), is_descending))
        assert all(a >= b if is_descending else a <= b for a, b in pairwise(values)), example
    assert len(directions) == 4


def test_xml_parses_and_holds_the_facts_of_the_sentence():
    kinds = set()
    for example in find_domain("xml_extract").examples("train", num=200, seed=0):
        root = ElementTree.fromstring(example.answer)
        kinds.add(root.tag)
        facts = {child.tag: child.text for child in root}
        assert len(facts) == len(root) == 4
        assert all(value in example.prompt for value in facts.values()), example
        if root.tag == "trip":
            assert re.search(rf"(from|leaves) {facts['from']}\b", example.prompt), example
    assert kinds == {"trip", "bill", "loan"}


NUMBERS = [*range(-30, 130), 17, 17]
WORDS = ["hats", "jars", "pens", "pens", "ox", "umbrellas", "umbrellas", "tents"]
# What the words of a task mean, written down apart from the code that answers them.
MEANINGS = {
    r"counts the numbers above (\d+)\.": (NUMBERS, lambda low: len([n for n in NUMBERS if n > low])),
    r"adds up the numbers that (\d+) divides": (NUMBERS, lambda k: sum(n for n in NUMBERS if n // k * k == n)),
    r"returns the numbers from (\d+) to (\d+)": (
        NUMBERS,
        lambda low, high: [n for n in NUMBERS if n in range(low, high + 1)],
    ),
    r"multiplies each number by (\d+) and adds (\d+)": (NUMBERS, lambda k, low: [n * k + low for n in NUMBERS]),
    r"returns the (\d+) largest of the numbers below (\d+)": (
        NUMBERS,
        lambda k, high: sorted(n for n in NUMBERS if n < high)[: -k - 1 : -1],
    ),
    r"the words that are longer than (\d+) letters and are not (\w+)": (
        WORDS,
        lambda k, word: [w for w in WORDS if w != word and w[k:]],
    ),
    r"maps each word but (\w+) to how often": (WORDS, lambda word: dict(Counter(w for w in WORDS if w != word))),
    r"the number, but at least (\d+) and at most (\d+)": (35, lambda low, high: sorted((low, 35, high))[1]),
    r"replaces (\w+) by (\w+) in the text and cuts it after (\d+) characters": (
        " ".join(WORDS),
        lambda word, other, low: other.join(" ".join(WORDS).split(word))[:low],
    ),
    r"returns the amount of (\w+) times (\d+), or (\d+)": (
        {"hats": 3, "jars": 4},
        lambda word, k, low: {"hats": 3 * k, "jars": 4 * k}.get(word, low),
    ),
}


def _number_or_text(text):
    return int(text) if text.isdigit() else text


def test_written_functions_do_what_the_prompt_asks():
    seen = set()
    for example in find_domain("python_code").examples("train", num=300, seed=0):
        (pattern, found), *others = ((p, m) for p in MEANINGS if (m := re.search(p, example.prompt)))
        assert not others
        (function,) = ast.parse(example.answer).body
        assert f"Write a Python function {function.name}({function.args.args[0].arg}) that" in example.prompt
        namespace = {}
        exec(example.answer, namespace)
        argument, meaning = MEANINGS[pattern]
        assert namespace[function.name](argument) == meaning(*map(_number_or_text, found.groups())), example
        seen.add(pattern)
    assert seen == set(MEANINGS)
