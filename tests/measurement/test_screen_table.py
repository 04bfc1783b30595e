"""The table of a screening, held against the numbers that the README states for the shipped mini run."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.errors import ResultError
from lora_spec.measurement.screen_table import read_screened, write_screen_table
from lora_spec.results import read_result

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "reference/mini/acceptance"
# README.md: acceptance length at K=2 on own traffic, and that of the base on the same prompts.
STATED = {"upper_case": (1.11, 1.98), "sql": (1.07, 1.30), "json_extract": (1.34, 1.48)}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("screen") / "screen.json"
    write_screen_table(path, [RECORDS / f"{name}.parquet" for name in STATED], load_tier(ROOT, "mini"))
    return read_result(path, "screen_table").payload


def test_rows_stand_in_the_order_of_the_pool_with_the_stated_acceptance(table):
    assert [row["adapter"] for row in table["rows"]] == ["sql", "json_extract", "upper_case"]
    for row in table["rows"]:
        found = (row["adapted"]["acceptance_length"], row["base"]["acceptance_length"])
        assert found == pytest.approx(STATED[row["adapter"]], abs=0.006)


def test_rates_fall_with_the_position_and_add_up_to_the_length(table):
    for row in table["rows"]:
        for arm in ("adapted", "base"):
            rates = row[arm]["acceptance_rate_per_pos"]
            assert len(rates) == row["num_speculative_tokens"] == 2
            assert 1 >= rates[0] >= rates[1] >= 0
            assert 1 + sum(rates) == pytest.approx(row[arm]["acceptance_length"])


def test_a_record_that_stands_twice_is_refused(tmp_path):
    copy = shutil.copy(RECORDS / "sql.parquet", tmp_path / "copy.parquet")
    with pytest.raises(ResultError, match="'sql' stands twice"):
        write_screen_table(tmp_path / "t.json", [RECORDS / "sql.parquet", Path(copy)], load_tier(ROOT, "mini"))


def test_what_was_measured_before_is_checked_before_more_is_measured():
    tier = load_tier(ROOT, "mini")
    (pair,) = read_screened([RECORDS / "sql.parquet"], tier, to_come=["zero"])
    assert pair[1].adapter == "sql"
    for files, to_come in (([RECORDS / "sql.parquet"], ["sql"]), ([RECORDS / "sql.parquet"] * 2, [])):
        with pytest.raises(ResultError, match="'sql' stands twice"):
            read_screened(files, tier, to_come=to_come)
    with pytest.raises(ResultError, match="no such result"):
        read_screened([RECORDS / "gone.parquet"], tier)


def test_a_record_of_no_adapter_of_the_pool_is_refused_by_name():
    tier = load_tier(ROOT, "mini")
    rows = tuple(row for row in tier.adapter_pool.adapters if row.name != "sql")
    lesser = replace(tier, adapter_pool=tier.adapter_pool.model_copy(update={"adapters": rows}))
    with pytest.raises(ResultError, match="'sql', which the pool lacks"):
        read_screened([RECORDS / "sql.parquet"], lesser)
