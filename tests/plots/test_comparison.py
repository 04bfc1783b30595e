"""A run held against the shipped one: what may move on the same kind of processor, and what on another."""

import frames
import pandas as pd
import pytest

from lora_spec.plots.comparison import SPEEDUP_TOLERANCE, compare_verdicts, describe_processors
from lora_spec.plots.schemas import VERDICT_TABLE

OTHER = "avx2 avx512f"


@pytest.fixture
def shipped():
    return pd.DataFrame(VERDICT_TABLE.check(frames.verdicts()))


def _moved(table, by, **columns):
    speedups = {name: table[name] + by for name in ("speedup", "speedup_lower", "speedup_upper")}
    return table.assign(**speedups, **columns)


def test_a_table_passes_against_itself(shipped):
    assert all(line.is_equal for line in compare_verdicts(shipped, shipped))


@pytest.mark.parametrize("sign", [-1, 1])
def test_on_the_same_kind_of_processor_speedups_may_move_by_the_tolerance(shipped, sign):
    known = shipped["speedup"].notna().tolist()
    within = compare_verdicts(_moved(shipped, sign * (SPEEDUP_TOLERANCE - 0.001)), shipped)
    beyond = compare_verdicts(_moved(shipped, sign * (SPEEDUP_TOLERANCE + 0.001)), shipped)
    assert all(line.is_equal for line in within)
    assert [not line.is_equal for line in beyond] == known
    assert all("differs: speedup" in line.text for line in beyond if not line.is_equal)


def test_on_another_kind_speedups_may_move_further_and_say_so(shipped):
    lines = compare_verdicts(_moved(shipped, -0.09, processor=OTHER), shipped)
    assert all(line.is_equal for line in lines)
    assert "more than 0.05 apart: other processor" in lines[0].text
    assert describe_processors(shipped.assign(processor=OTHER), shipped).startswith(
        f"processor: {OTHER} (shipped: avx2"
    )


def test_on_another_kind_a_clear_gain_that_became_a_clear_loss_is_a_difference(shipped):
    lines = compare_verdicts(_moved(shipped, -0.5, processor=OTHER), shipped)
    gained = (shipped["speedup_lower"] > 1).tolist()
    assert any(gained)
    assert [not line.is_equal for line in lines] == gained


def test_on_another_kind_a_clear_order_that_is_turned_round_is_a_difference(shipped):
    columns = ["speedup", "speedup_lower", "speedup_upper"]
    turned = shipped.copy()
    for index, (middle, other) in enumerate(((1.5, 1.2), (1.2, 1.5))):
        shipped.loc[index, columns] = [middle, middle - 0.05, middle + 0.05]
        turned.loc[index, columns] = [other, other - 0.05, other + 0.05]
    first, second, *rest = compare_verdicts(turned.assign(processor=OTHER), shipped)
    assert f"order against {second.adapter}" in first.text
    assert (first.is_equal, second.is_equal) == (False, False)
    assert all(line.is_equal for line in rest)


def test_a_processor_that_is_not_recorded_counts_as_the_same_kind(shipped):
    lines = compare_verdicts(_moved(shipped, 0.09, processor=None), shipped)
    assert [not line.is_equal for line in lines] == shipped["speedup"].notna().tolist()
    assert "not recorded" in describe_processors(shipped.assign(processor=None), shipped)


def test_acceptance_must_agree_on_any_processor(shipped):
    far = shipped.assign(**{name: shipped[name] + 1 for name in ("acceptance_length", "lower", "upper")})
    lines = compare_verdicts(far.assign(processor=OTHER), shipped)
    known = shipped["acceptance_length"].notna()
    assert not any(line.is_equal for line, is_known in zip(lines, known, strict=True) if is_known)
