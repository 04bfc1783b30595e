import pytest

from lora_spec.errors import ConfigError
from lora_spec.evaluation.extremes import Chosen
from lora_spec.evaluation.transfer import IntervalSettings, compare_pairs

SETTINGS = IntervalSettings(level=0.9, num_draws=300, seed=0)
GROUPS = ["worst"] * 4 + ["random"] * 4 + ["best"] * 4
CHOSEN = tuple(Chosen(f"a{i:02d}", f"s{i % 6}", group, 1 + i / 10) for i, group in enumerate(GROUPS))
RISING = {item.adapter: 1 + (i / 12) ** 2 for i, item in enumerate(CHOSEN)}
FALLING = {name: 3 - value for name, value in RISING.items()}


def _compare(first=RISING, second=RISING, chosen=CHOSEN):
    return compare_pairs(chosen, first, second, settings=SETTINGS)


def test_one_order_on_both_pairs_correlates_perfectly_and_keeps_the_extremes():
    report = _compare(second={name: 5 * value for name, value in RISING.items()})
    for found in (report.first_against_second, report.predicted_against_first, report.predicted_against_second):
        assert found.estimate == pytest.approx(1)
        assert found.interval.lower == pytest.approx(1)
    assert (report.extremes_in_order.estimate, report.are_all_in_order) == (1, True)
    assert (report.num_adapters, report.num_sources) == (12, 6)


def test_an_order_turned_round_is_reported_as_such():
    report = _compare(second=FALLING)
    assert report.predicted_against_first.estimate == pytest.approx(1)
    assert report.first_against_second.estimate == pytest.approx(-1)
    assert report.predicted_against_second.estimate == pytest.approx(-1)
    assert (report.extremes_in_order.estimate, report.are_all_in_order) == (0, False)


def test_extremes_are_counted_pair_by_pair_with_ties_as_halves():
    """Worst 1, 2, 3, 4 against best 5, 5, 5, 2.5: 12 pairs in order, then 2 of 4; a tie of 2.5 with 2.5 is half."""
    second = dict(zip(RISING, [1, 2, 3, 4, 9, 9, 9, 9, 5, 5, 5, 2.5], strict=True))
    assert _compare(second=second).extremes_in_order.estimate == pytest.approx(14 / 16)
    tied = {**second, "a01": 2.5}
    assert _compare(second=tied).extremes_in_order.estimate == pytest.approx(13.5 / 16)
    assert _compare(second=second).are_all_in_order is False


def test_the_random_middle_counts_for_correlations_and_not_for_the_extremes():
    swapped = {**RISING, "a04": RISING["a07"], "a07": RISING["a04"]}
    report = _compare(second=swapped)
    assert report.extremes_in_order.estimate == 1
    assert report.first_against_second.estimate == pytest.approx(1 - 6 * (3**2 + 3**2) / (12 * 143))


def test_intervals_resample_whole_sources():
    one = tuple(Chosen(item.adapter, "all", item.group, item.predicted) for item in CHOSEN)
    swapped = {**RISING, "a04": RISING["a07"], "a07": RISING["a04"]}
    alone = _compare(second=swapped, chosen=one).first_against_second
    assert alone.interval.lower == alone.interval.upper == alone.estimate
    spread = _compare(second=swapped).first_against_second.interval
    assert spread.lower < spread.upper


def test_what_is_undefined_is_none_and_the_rest_is_still_reported():
    report = _compare(second=dict.fromkeys(RISING, 1.0))
    assert (report.first_against_second.estimate, report.first_against_second.interval) == (None, None)
    assert report.predicted_against_first.estimate == pytest.approx(1)
    assert report.extremes_in_order.estimate == 0.5
    middle = tuple(item for item in CHOSEN if item.group == "random")
    report = _compare(chosen=middle)
    assert (report.extremes_in_order.estimate, report.are_all_in_order) == (None, None)


@pytest.mark.parametrize("which", ["first", "second"])
def test_an_adapter_that_was_not_measured_is_named(which):
    with pytest.raises(ConfigError, match=f"'a03' was chosen and is not measured on the {which} pair"):
        _compare(**{which: {name: value for name, value in RISING.items() if name != "a03"}})
