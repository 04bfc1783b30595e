"""A calibration record: sums over prompts, the direct probe, and what it refuses."""

import math
from dataclasses import replace

import pytest
from made_calibration import DEPTH, make_prompt, make_record

from lora_spec.calibration_record import DIRECT_PROBE_PARTS, SIGNALS, PartCost
from lora_spec.errors import MeasurementError
from lora_spec.records import AcceptanceCounts


def test_a_sum_is_over_the_positions_of_a_text():
    prompt = make_prompt(num_positions=3, kl_base_nats=(1.0, 2.0, 4.0))
    assert (prompt.sum("kl_base_nats"), prompt.num_positions) == (7.0, 3)


@pytest.mark.parametrize("depth", range(1, DEPTH + 1))
def test_the_direct_probe_of_some_prompts_and_of_the_rest_adds_up_to_that_of_all(depth):
    whole = make_record()
    rest = make_record(whole.prompts[3:])
    assert whole.direct_probe(depth, 3) + rest.direct_probe(depth, 5) == whole.direct_probe(depth, 8)


def test_the_direct_probe_gives_the_acceptance_length_of_the_counts():
    counts = tuple(AcceptanceCounts.from_accepted_per_step([0, min(2, k), min(4, k)], k) for k in range(1, 5))
    record = make_record([replace(make_prompt(), counts_by_depth=counts)])
    assert record.direct_probe(3, 1).acceptance_length == pytest.approx(1 + (0 + 2 + 3) / 3)


def test_a_direct_probe_pays_for_no_reading_by_the_targets():
    record = make_record()
    assert record.cost(DIRECT_PROBE_PARTS) == PartCost(3.25, 5.0)
    assert record.cost(record.cost_by_part) == PartCost(4.25, 7.0)


@pytest.mark.parametrize("num_prompts", [0, 9])
def test_more_prompts_than_were_probed_or_none_are_refused(num_prompts):
    with pytest.raises(MeasurementError, match="the record holds 8"):
        make_record().first(num_prompts)


@pytest.mark.parametrize("depth", [0, DEPTH + 1])
def test_a_depth_that_was_not_counted_is_refused(depth):
    with pytest.raises(MeasurementError, match="was not counted"):
        make_record().direct_probe(depth, 1)


@pytest.mark.parametrize(
    ("signal", "value"),
    [("js_base_nats", 0.7), ("overlap_drafter", 1.1), ("kl_base_nats", -0.1), ("entropy_base_nats", math.nan)],
)
def test_a_value_that_cannot_be_is_refused_by_name(signal, value):
    with pytest.raises(MeasurementError, match=signal):
        make_prompt(num_positions=2, **{signal: (0.1, value)})


def test_a_signal_for_fewer_positions_than_tokens_is_refused():
    with pytest.raises(MeasurementError, match="2 values of entropy_base_nats for 3"):
        make_prompt(num_positions=3, entropy_base_nats=(0.1, 0.2))


def test_a_missing_and_an_unknown_signal_are_refused_by_name():
    prompt = make_prompt()
    without = {name: values for name, values in prompt.signals.items() if name != SIGNALS[0]}
    with pytest.raises(MeasurementError, match=SIGNALS[0]):
        replace(prompt, signals=without)
    with pytest.raises(MeasurementError, match="'answer'"):
        replace(prompt, signals={**prompt.signals, "answer": (1.0,) * prompt.num_positions})


def test_a_text_of_no_tokens_and_a_prompt_that_stands_twice_are_refused():
    with pytest.raises(MeasurementError, match="0 output tokens"):
        make_prompt(num_positions=0)
    with pytest.raises(MeasurementError, match="one twice"):
        make_record([make_prompt(1), make_prompt(1)])
