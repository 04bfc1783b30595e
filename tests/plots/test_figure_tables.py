"""The declared tables: what is refused, and that a CSV says the same as the table it was written from."""

import frames
import pandas as pd
import pytest

from lora_spec.errors import EvidenceError, ResultError
from lora_spec.plots.schemas import PAIRED_EFFECT, VERDICT_TABLE


def test_every_column_is_needed(figure_case):
    spec, make = figure_case
    frame = make()
    for name in spec.schema.columns:
        with pytest.raises(ResultError, match=rf"lacks {name}\b"):
            spec.draw(frame.drop(columns=name))


def test_an_undeclared_column_is_refused(figure_case):
    spec, make = figure_case
    with pytest.raises(ResultError, match="undeclared answer"):
        spec.draw(make().assign(answer=1.0))


def test_planned_rows_are_never_drawn(figure_case):
    spec, make = figure_case
    frame = make()
    frame.loc[0, "evidence"] = "contract-only"
    with pytest.raises(EvidenceError, match="planned and not run"):
        spec.draw(frame)


def test_a_table_without_rows_is_refused(figure_case):
    spec, make = figure_case
    with pytest.raises(ResultError, match="no rows"):
        spec.draw(make().iloc[:0])


def test_a_repeated_key_is_refused(figure_case):
    spec, make = figure_case
    frame = make()
    with pytest.raises(ResultError, match="more than one row"):
        spec.draw(pd.concat([frame, frame.tail(1)]))


def test_two_tiers_in_one_table_are_refused(figure_case):
    spec, make = figure_case
    frame = make()
    frame.loc[0, "tier"] = "cpu"
    with pytest.raises(ResultError, match="tier must be one value"):
        spec.draw(frame)


@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("num_prompts", 1.5, "not of type int"),
        ("delta_acceptance_length", float("inf"), "not of type float"),
        ("delta_acceptance_length", None, "missing values"),
        ("prompt_set", "mine", "holds mine; allowed are own, common"),
        ("adapter", "", "not of type str"),
        ("lower", 99.0, "lower exceeds upper"),
    ],
)
def test_a_wrong_value_is_refused_with_its_column(column, value, complaint):
    frame = frames.paired_effect().astype({column: object})
    frame.loc[1, column] = value
    with pytest.raises(ResultError, match=complaint):
        PAIRED_EFFECT.check(frame)


def test_a_csv_reads_back_as_the_same_table(figure_case, tmp_path):
    spec, make = figure_case
    checked = spec.schema.check(make())
    path = tmp_path / "table.csv"
    checked.to_csv(path, index=False)
    pd.testing.assert_frame_equal(spec.schema.read_csv(path), checked, check_exact=True)


def test_missing_values_stay_missing_in_a_csv(tmp_path):
    path = tmp_path / "table.csv"
    frames.verdicts().to_csv(path, index=False)
    last = VERDICT_TABLE.read_csv(path).iloc[-1]
    assert pd.isna(last["acceptance_length"])
    assert pd.isna(last["measured_num_speculative_tokens"])


def test_a_missing_csv_is_named(tmp_path):
    with pytest.raises(ResultError, match=r"none\.csv"):
        PAIRED_EFFECT.read_csv(tmp_path / "none.csv")
