import pytest

from lora_spec.errors import ConfigError
from lora_spec.evaluation.splits import leave_source_out, predict_across

SOURCES = ["json", "upper", "json", "chat", "upper"]


def test_every_row_is_tested_once_and_no_source_stands_on_both_sides():
    tested = []
    for source, inside, outside in leave_source_out(SOURCES):
        assert {SOURCES[i] for i in outside} == {source}
        assert source not in {SOURCES[i] for i in inside}
        assert len(inside) + len(outside) == len(SOURCES)
        tested.extend(outside.tolist())
    assert sorted(tested) == list(range(len(SOURCES)))


def test_predictions_come_back_in_order_and_never_saw_their_source():
    seen = predict_across(
        SOURCES, SOURCES, fit=lambda rows: frozenset(rows), predict=lambda fitted, example: (example, fitted)
    )
    assert [example for example, _ in seen] == SOURCES
    assert all(example not in fitted for example, fitted in seen)


def test_one_source_cannot_be_split():
    with pytest.raises(ConfigError, match="one source"):
        list(leave_source_out(["a", "a"]))
