"""Raw counts in, rates out: closed forms and limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lora_spec.errors import MeasurementError, ResultError
from lora_spec.records import AcceptanceCounts, AcceptanceEstimate, Interval, Verdict


def test_acceptance_length_counts_the_bonus_token():
    assert AcceptanceCounts(10, 30, 0, (0, 0, 0)).acceptance_length == 1
    assert AcceptanceCounts(10, 30, 30, (10, 10, 10)).acceptance_length == 4


def test_rates_are_none_without_drafts():
    nothing = AcceptanceCounts.zero(3)
    assert nothing.acceptance_rate is None
    assert nothing.acceptance_rate_per_pos is None
    assert nothing.acceptance_length is None


@given(st.lists(st.integers(0, 4), min_size=1))
def test_counts_from_steps_are_marginal_and_add_up(accepted):
    counts = AcceptanceCounts.from_accepted_per_step(accepted, 4)
    assert counts.num_accepted_tokens == sum(accepted)
    assert counts.num_drafts == len(accepted)
    rates = counts.acceptance_rate_per_pos
    assert list(rates) == sorted(rates, reverse=True)
    assert counts.acceptance_length == pytest.approx(1 + sum(rates))


@given(st.lists(st.integers(0, 3), min_size=1), st.lists(st.integers(0, 3), min_size=1))
def test_counting_together_equals_adding_counts(first, second):
    apart = AcceptanceCounts.from_accepted_per_step(first, 3) + AcceptanceCounts.from_accepted_per_step(second, 3)
    assert apart == AcceptanceCounts.from_accepted_per_step(first + second, 3)


@pytest.mark.parametrize(
    "counts",
    [
        (10, 30, 5, (5, 1, 0)),  # does not add up
        (10, 30, 9, (4, 5, 0)),  # a later position accepted more often
        (3, 9, 5, (5, 0, 0)),  # accepted more often than drafted
        (10, 4, 5, (5, 0, 0)),  # more accepted than drafted tokens
        (-1, 0, 0, (0, 0, 0)),
    ],
)
def test_counts_that_contradict_themselves_are_refused(counts):
    with pytest.raises(MeasurementError):
        AcceptanceCounts(*counts)


def test_counts_of_different_depths_do_not_add():
    with pytest.raises(MeasurementError, match="K=2 and K=3"):
        AcceptanceCounts.zero(2) + AcceptanceCounts.zero(3)


def test_records_survive_json():
    lengths = (Interval(1.5, 1.4, 1.6, 0.9),)
    estimate = AcceptanceEstimate("measured", (0.5,), (0.4,), (0.6,), 0.9, lengths, reasons=(("R_X", "why"),))
    assert AcceptanceEstimate.from_dict(estimate.to_dict()) == estimate


def test_acceptance_length_at_depth_zero_is_exactly_one():
    estimate = AcceptanceEstimate("measured", (0.5,), (0.4,), (0.6,), 0.9, (Interval(1.5, 1.4, 1.6, 0.9),))
    assert estimate.acceptance_length(0) == Interval(1.0, 1.0, 1.0, 0.9)


def test_verdict_json_has_the_shape_that_users_read():
    verdict = Verdict(
        adapter={"name": "a"},
        mode="measured",
        action="amber",
        num_speculative_tokens=2,
        drafter="keep",
        acceptance_length=Interval(1.9, 1.6, 2.2, 0.9),
        speedup=Interval(1.12, 0.98, 1.21, 0.9),
        speedup_context={"batch_size": 1},
        reasons=(("R_X", "why"),),
    )
    data = verdict.to_dict()
    assert data["speedup"]["context"] == {"batch_size": 1}
    assert data["reasons"] == [{"code": "R_X", "message": "why"}]
    assert "speedup_context" not in data


@pytest.mark.parametrize("depth", [-1, 2, 99])
def test_an_acceptance_length_is_known_from_0_to_the_last_depth_alone(depth):
    estimate = AcceptanceEstimate("measured", (0.5,), (0.4,), (0.6,), 0.9, (Interval(1.5, 1.4, 1.6, 0.9),))
    assert [estimate.acceptance_length(k).estimate for k in (0, 1)] == [1.0, 1.5]
    with pytest.raises(ResultError, match=f"asked for at K={depth} and known to K=1"):
        estimate.acceptance_length(depth)
