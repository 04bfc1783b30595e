"""docs/data-card.md keeps step with the tables, the pool and the shipped counts, and its examples run."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.measurement import calibration_table, record_table
from lora_spec.stress import live_table
from lora_spec.training.domains import DOMAINS

ROOT = Path(__file__).parents[2]
CARD = (ROOT / "docs/data-card.md").read_text()
STRATA, METHODS = ("aggressive", "moderate", "benign"), ("LoRA", "rsLoRA", "LoRA+")


def _section(heading):
    return re.split(r"^#{2,3} ", CARD.partition(heading)[2], maxsplit=1, flags=re.M)[0]


def _rows(text):
    lines = (line for line in text.splitlines() if line.startswith("| `"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize(
    ("heading", "schema"),
    [
        ("### `acceptance/*.parquet`", record_table.declared_schema()),
        ("### `calibration/*.parquet`", calibration_table.declared_schema()),
        ("### `stress/live.parquet`", live_table.declared_schema()),
    ],
)
def test_every_column_of_a_table_is_in_the_card_and_no_other(heading, schema):
    told = [name for row in _rows(_section(heading)) for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(told) == sorted(schema.names)


def test_columns_that_may_be_missing_are_told_and_no_others():
    schema = record_table.declared_schema()
    told = {row[0].strip("`") for row in _rows(_section("### `acceptance/*.parquet`")) if "null" in row[1]}
    assert told == {field.name for field in schema if field.nullable}


def _method(row):
    return "LoRA+" if row.lora_plus_ratio > 1 else "rsLoRA" if row.use_rslora else "LoRA"


def test_the_design_is_that_of_the_pool():
    pool = load_tier(ROOT, "cpu").adapter_pool
    rows = [pool.find(name) for name in pool.separate]
    told = {row[0].strip("`"): row[1:] for row in _rows(_section("## The pool")) if len(row) == 8}
    assert set(told) == {row.domain for row in rows}
    for domain, cells in told.items():
        own = [row for row in rows if row.domain == domain]
        strata, methods = Counter(row.stratum for row in own), Counter(map(_method, own))
        assert cells[0] == f"{DOMAINS[domain].description}; {DOMAINS[domain].license}"
        assert list(map(int, cells[1:])) == [*(strata[name] for name in STRATA), *(methods[name] for name in METHODS)]


def _shares(overlap):
    return " / ".join(f"{count['num_found'] / count['num_ngrams']:.2f}" for count in overlap["ngrams"])


def test_the_overlap_is_that_of_the_shipped_counts():
    shipped = json.loads((ROOT / "reference/cpu/domain_overlap.json").read_text())["payload"]["domains"]
    told = {row[0].strip("`"): row[1:] for row in _rows(_section("## The pool")) if len(row) == 5}
    for domain in shipped:
        prompts = domain["evaluation_prompts"]
        answers = {pairs["split"]: _shares(pairs["answers"]) for pairs in domain["pairs"]}
        exact = f"{prompts['num_exact']} of {prompts['num_texts']}"
        assert told[domain["domain"]] == [exact, _shares(prompts), answers["eval"], answers["train"]]
    assert len(told) == len(shipped)


def test_every_kind_of_file_that_is_shipped_is_in_the_card():
    kinds = {path.name for path in (ROOT / "reference/cpu").iterdir()}
    assert not {kind for kind in kinds if f"`cpu/{kind}" not in CARD}
    models = {path.name for path in (ROOT / "reference/models").iterdir() if not path.name.startswith("confirm_")}
    assert not {model for model in models if f"`models/{model}/`" not in CARD}


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", CARD, flags=re.S))
def test_an_example_runs_as_it_stands(example, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    exec(compile(example, "data-card.md", "exec"), {})
    assert capsys.readouterr().out


def test_the_acceptance_length_of_the_example_is_that_of_the_records(monkeypatch):
    record = record_table.read_records(ROOT / "reference/cpu/acceptance/sql_r8_qv_rs.parquet")
    example = re.findall(r"```python\n(.*?)```", CARD, flags=re.S)[0]
    monkeypatch.chdir(ROOT)
    names = {}
    exec(compile(example, "data-card.md", "exec"), names)
    chosen = [
        row.counts
        for row in record.chosen("replay")
        if (row.arm, row.prompt_set, row.counts.num_speculative_tokens) == ("adapted", "own", 3)
    ]
    length = 1 + sum(c.num_accepted_tokens for c in chosen) / sum(c.num_drafts for c in chosen)
    found = 1 + names["sums"]["num_accepted_tokens"] / names["sums"]["num_drafts"]
    assert found["adapted"] == pytest.approx(length)
