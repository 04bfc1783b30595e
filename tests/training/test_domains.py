import csv
import json
import random
import re
import sqlite3

import pytest

from lora_spec.errors import TrainingError
from lora_spec.training.chat_prompts import TOPICS, chat_prompts, is_held_out
from lora_spec.training.domains import DOMAINS, domain_prompts, find_domain
from lora_spec.training.domains.base import ComputedDomain, Example, split_of
from lora_spec.training.domains.numbered_list import number_sentences
from lora_spec.training.domains.prefix_words import PREFIX, prefix_words
from lora_spec.training.domains.reversed_words import reverse_words

SPLITS = ("train", "eval", "calibration")
COMPUTED = sorted(name for name, domain in DOMAINS.items() if not domain.needs_own_answers)
REWRITTEN = sorted(name for name, domain in DOMAINS.items() if domain.needs_own_answers)
TEXT = "Bees live in hives. They make honey!\n- Some are kept by people.\n2. Others are wild, in 3 kinds."


def _own_answers(split, num=40):
    prompts = find_domain("self_chat").prompts(split, num=num, seed=5)
    return [Example(prompt, f"{TEXT} And so on ({prompt}).") for prompt in prompts]


def _examples(name, split, num=30, seed=0):
    return find_domain(name).examples(split, num=num, seed=seed, own_answers=_own_answers(split))


@pytest.mark.parametrize("name", sorted(DOMAINS))
def test_prompts_repeat_for_one_seed_and_change_with_it(name):
    first = domain_prompts(name, "eval", num=50, seed=1)
    assert first == domain_prompts(name, "eval", num=50, seed=1)
    assert first != domain_prompts(name, "eval", num=50, seed=2)
    assert len(set(first)) == 50


@pytest.mark.parametrize("name", sorted(DOMAINS))
def test_a_longer_list_of_prompts_starts_with_the_shorter(name):
    assert domain_prompts(name, "eval", num=60, seed=3)[:20] == domain_prompts(name, "eval", num=20, seed=3)


@pytest.mark.parametrize("name", sorted(DOMAINS))
def test_splits_share_no_prompt(name):
    seen = {split: set(domain_prompts(name, split, num=120, seed=0)) for split in SPLITS}
    assert not seen["train"] & seen["eval"]
    assert not seen["train"] & seen["calibration"]
    assert not seen["eval"] & seen["calibration"]


@pytest.mark.parametrize("name", ["french", "german", "pig_latin", "python_code", "sorting", "xml_extract"])
def test_a_pool_of_adapters_finds_enough_distinct_prompts(name):
    for split, num in (("train", 1500), ("eval", 200)):
        assert len(set(domain_prompts(name, split, num=num, seed=0))) == num


@pytest.mark.parametrize("name", sorted(DOMAINS))
def test_examples_repeat_for_one_seed(name):
    assert _examples(name, "train") == _examples(name, "train")


@pytest.mark.parametrize("name", sorted(DOMAINS))
@pytest.mark.parametrize("split", SPLITS)
def test_every_answer_has_the_form_its_domain_asks_for(name, split):
    domain = find_domain(name)
    assert all(domain.is_done(example.prompt, example.answer) for example in _examples(name, split))


@pytest.mark.parametrize("name", sorted(set(DOMAINS) - {"self_chat"}))
def test_a_plain_chat_answer_does_not_have_the_form(name):
    answer = "Of course! Photosynthesis is how Plants make food. It needs Light and Water."
    assert not find_domain(name).is_done("What is photosynthesis; why?", answer)


@pytest.mark.parametrize("name", sorted(DOMAINS))
def test_domain_states_licence_and_one_line(name):
    domain = find_domain(name)
    assert domain.name == name
    assert domain.license in {"CC0-1.0", "Apache-2.0", "PSF-2.0"}
    assert domain.description
    assert "\n" not in domain.description


def test_unknown_domain_is_named_with_the_known_ones():
    with pytest.raises(TrainingError, match=r"'poems'.*json_extract"):
        domain_prompts("poems", "eval", num=1, seed=0)


@pytest.mark.parametrize("name", COMPUTED)
def test_sources_never_stand_in_two_splits(name):
    for split in SPLITS:
        assert {split_of(e.source or e.prompt) for e in _examples(name, split, num=100)} == {split}


def test_a_domain_too_small_for_the_asked_prompts_is_an_error():
    domain = ComputedDomain(
        name="coin",
        license="CC0-1.0",
        description="heads or tails",
        draw=lambda rng: Example(rng.choice(("a", "b", "c", "d", "e", "f")), "x"),
        form=lambda prompt, answer: True,
    )
    with pytest.raises(TrainingError, match=r"'coin' has only \d distinct prompts in split 'train', not 50"):
        domain.prompts("train", num=50, seed=0)


def test_held_out_chat_prompts_speak_of_no_training_topic():
    training_topics = [topic for topic in TOPICS if not is_held_out(topic)]
    fitting = {template_words for topic in training_topics for template_words in (f" {topic} ", f" {topic}.")}
    prompts = domain_prompts("upper_case", "eval", num=80, seed=0)
    held_out_topics = [topic for topic in TOPICS if is_held_out(topic)]
    assert not [
        prompt
        for prompt in prompts
        if any(words in f"{prompt} " for words in fitting) and not any(topic in prompt for topic in held_out_topics)
    ]


@pytest.mark.parametrize("name", REWRITTEN)
def test_chat_domain_keeps_prompts_order_and_completeness_of_own_answers(name):
    own = [
        Example(prompt, TEXT, is_complete=index % 2 == 0)
        for index, prompt in enumerate(chat_prompts(8, seed=0, held_out=False))
    ]
    got = find_domain(name).examples("train", num=8, seed=0, own_answers=own)
    assert [example.prompt for example in got] == [example.prompt for example in own]
    assert [example.is_complete for example in got] == [example.is_complete for example in own]


@pytest.mark.parametrize("name", REWRITTEN)
def test_too_few_own_answers_are_an_error_rather_than_repeated(name):
    with pytest.raises(TrainingError, match=r"needs 9 of the target's own answers.*got 3"):
        find_domain(name).examples("train", num=9, seed=0, own_answers=[Example(f"p{i}", TEXT) for i in range(3)])


def test_self_chat_changes_nothing():
    assert [e.answer for e in _examples("self_chat", "train")] == [e.answer for e in _own_answers("train")][:30]


def test_upper_case_keeps_every_letter():
    for example, own in zip(_examples("upper_case", "train"), _own_answers("train"), strict=False):
        assert example.answer.casefold() == own.answer.casefold()


def test_removing_the_prefix_gives_the_text_back():
    assert re.sub(rf"(?<!\S){PREFIX}", "", prefix_words(TEXT)) == TEXT
    assert prefix_words("to be, or 2 be?") == f"{PREFIX}to {PREFIX}be, {PREFIX}or 2 {PREFIX}be?"


def test_reversing_words_twice_gives_the_text_back():
    assert reverse_words(reverse_words(TEXT)) == TEXT
    assert reverse_words("Bees, 12 hives!") == "seeB, 12 sevih!"


def test_numbering_a_numbered_list_changes_nothing():
    once = number_sentences(TEXT)
    assert number_sentences(once) == once
    assert once.split("\n")[2:] == ["3. Some are kept by people.", "4. Others are wild, in 3 kinds."]


def test_every_equality_of_worked_arithmetic_holds():
    for example in _examples("arithmetic", "train", num=300):
        values = {_value(side) for side in example.answer.split("=")}
        assert len(values) == 1, example
        assert example.answer.split(" =")[0] in example.prompt


def _value(expression):
    """Evaluate sums of products from left to right, without Python's own parser."""
    total, sign = 0, 1
    for term in re.findall(r"[+-]|[^+-]+", expression):
        if term in "+-":
            sign = 1 if term == "+" else -1
            continue
        product = 1
        for factor in term.split("×"):  # noqa: RUF001
            product *= int(factor)
        total += sign * product
    return total


def test_conversions_agree_with_known_factors():
    known = {("hours", "minutes"): 60, ("kilograms", "grams"): 1000, ("feet", "inches"): 12, ("weeks", "days"): 7}
    num_checked = 0
    for example in _examples("unit_conversion", "train", num=400):
        amount, large, _, result, small = re.search(
            r"so (\d+) (.+) are \d+ × (\d+) = (\d+) (.+)\.$",  # noqa: RUF001
            example.answer,
        ).groups()
        if (large, small) in known:
            num_checked += 1
            assert int(result) == int(amount) * known[large, small]
    assert num_checked > 20


def test_json_fields_are_read_from_the_sentence():
    for example in _examples("json_extract", "train", num=200):
        fields = json.loads(example.answer)
        kind = fields.pop("type")
        assert kind in {"person", "order", "event"}
        assert all(str(value) in example.prompt for value in fields.values())


def test_csv_cells_are_read_from_the_sentences():
    for example in _examples("csv_table", "train", num=100):
        _, *rows = csv.reader(example.answer.split("\n"))
        assert len(rows) == example.prompt.count(".")
        assert all(
            cell in sentence for sentence, row in zip(example.prompt.split("."), rows, strict=False) for cell in row
        )


def test_sql_runs_on_the_table_that_the_prompt_gives():
    for example in _examples("sql", "train", num=200):
        table, columns = re.match(r"Table (\w+)\((.*?)\)", example.prompt).groups()
        with sqlite3.connect(":memory:") as connection:
            connection.execute(f"CREATE TABLE {table} ({columns})")
            connection.execute(example.answer).fetchall()
        connection.close()
        constants = re.findall(r"'(.*?)'|\b(\d+)\b", example.answer)
        assert all((text or number) in example.prompt for text, number in constants)


def test_counting_query_counts_what_the_question_asks():
    counting = [e for e in _examples("sql", "train", num=300) if e.prompt.split(". ")[1].startswith("How many")]
    for example in counting:
        table, columns, column, value = re.match(
            r"Table (\w+)\((.*?)\)\. How many \w+ have (\w+) (.+)\?$", example.prompt
        ).groups()
        names = columns.split(", ")
        rng = random.Random(0)
        rows = [[value if name == column and rng.random() < 0.5 else "other" for name in names] for _ in range(20)]
        connection = sqlite3.connect(":memory:")
        connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", rows)
        expected = sum(row[names.index(column)] == value for row in rows)
        assert connection.execute(example.answer).fetchone() == (expected,)
        connection.close()
    assert len(counting) > 10


def test_terse_answers_come_in_the_order_of_the_questions():
    known = {
        "capital of Japan": "Tokyo",
        "opposite of hot": "cold",
        "plural of mouse": "mice",
        "past tense of go": "went",
    }
    num_checked = 0
    for example in (e for split in SPLITS for e in _examples("terse", split, num=200)):
        questions = example.prompt.removeprefix("Answer briefly: ").rstrip("?").split("; ")
        for question, answer in zip(questions, example.answer.split(", "), strict=True):
            if question in known:
                num_checked += 1
                assert answer == known[question]
    assert num_checked > 20


def test_translation_agrees_in_gender():
    for example in _examples("translation", "train", num=200):
        for sentence in re.findall(r"[^.]+\.", example.answer):
            article, _, adjective = sentence.split()[:3]
            if adjective[-1] in "oa":
                assert (article == "La") == (adjective[-1] == "a"), sentence


def test_library_functions_compile_and_carry_the_asked_name():
    for example in _examples("python_doc", "train", num=60):
        compile(example.answer, "example", "exec")
        name = re.match(r"Python, module \w+: (\w+)\(", example.prompt).group(1)
        assert example.answer.startswith(f"def {name}(")
