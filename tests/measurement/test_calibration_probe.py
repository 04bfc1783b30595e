"""The probe of one adapter on a fake engine of known acceptance, and what it refuses."""

import numpy as np
import pytest

from lora_spec.calibration_record import SIGNALS
from lora_spec.engines import AdapterRef
from lora_spec.engines.fake import FakeEngine, FakeReplayer
from lora_spec.errors import MeasurementError
from lora_spec.measurement import Prompt, record_trajectories, replay_arm
from lora_spec.measurement.calibration_probe import CalibrationProbe

ACCEPTANCE = {None: 0.8, "shifted": 0.4}
ADAPTER = AdapterRef("shifted", "folder", 8)
PROMPTS = [Prompt(f"p{i}", (11, 12, 13, 20 + i)) for i in range(40)]


class FakeReader:
    """Knows which tokens the fake engine's drafter has right; all its other numbers are one constant."""

    def __init__(self, agreement=1.0, kl_base_nats=0.25):
        self.merged = None
        self._agreement = agreement
        self._kl_base_nats = kl_base_nats

    def reload_weights(self, weights):
        ((_, self.merged),) = weights

    def read(self, trajectory, watch):
        length = len(trajectory.output_token_ids) + len(trajectory.overrun_token_ids)
        with watch.part("adapted_forward"):
            (matches,) = FakeReplayer(ACCEPTANCE).match_drafts([_of(trajectory, self.merged)])
        constant = dict.fromkeys(SIGNALS, np.full(length, 0.5))
        agrees = np.arange(length) < self._agreement * length
        kl = np.full(length, self._kl_base_nats)
        return constant | {"is_drafter_first": matches, "is_adapted_first": agrees, "kl_base_nats": kl}


def _of(trajectory, adapter):
    from dataclasses import replace

    return replace(trajectory, adapter=adapter)


def _run(reader=None, engine=None, adapter=ADAPTER, **options):
    engine = engine or FakeEngine(ACCEPTANCE, num_speculative_tokens=4)
    probe = CalibrationProbe(
        engine, reader or FakeReader(), weights_of=lambda adapter: [("merged", adapter)], max_depth=4
    )
    return probe.run(adapter, PROMPTS, max_tokens=60, **options)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_counts_of_the_direct_probe_are_those_of_replay_prompt_by_prompt(depth):
    prompts, _ = _run()
    engine = FakeEngine(ACCEPTANCE, num_speculative_tokens=4)
    engine.reload_weights([("merged", ADAPTER)])
    texts = record_trajectories(engine, PROMPTS, adapter=None, max_tokens=60, num_overrun_tokens=4)
    replayed = replay_arm(
        FakeReplayer(ACCEPTANCE),
        [_of(text, ADAPTER) for text in texts],
        prompt_set="own",
        arm="adapted",
        adapter_name="shifted",
        depths=[depth],
    )
    assert [p.counts_by_depth[depth - 1] for p in prompts] == [record.counts for record in replayed]
    assert [p.output_token_ids for p in prompts] == [record.output_token_ids for record in replayed]


def test_the_direct_probe_finds_the_known_acceptance():
    prompts, _ = _run()
    counts = [p.counts_by_depth[3] for p in prompts]
    length = 1 + sum(c.num_accepted_tokens for c in counts) / sum(c.num_drafts for c in counts)
    alpha = ACCEPTANCE["shifted"]
    assert length == pytest.approx((1 - alpha**5) / (1 - alpha), rel=0.05)


def test_signals_past_the_end_of_a_text_are_left_out():
    prompts, _ = _run()
    assert {len(values) - p.num_positions for p in prompts for values in p.signals.values()} == {0}


def test_the_probe_says_what_each_part_cost():
    _, cost_by_part = _run()
    assert list(cost_by_part) == ["merge", "trajectories", "adapted_forward"]
    assert min(cost.wall_s for cost in cost_by_part.values()) > 0


def test_a_reader_with_other_weights_than_the_writer_is_caught():
    with pytest.raises(MeasurementError, match="writer and reader have different weights"):
        _run(FakeReader(agreement=0.7))


def test_an_adapter_that_was_not_merged_is_caught():
    with pytest.raises(MeasurementError, match="it was not merged"):
        _run(FakeReader(kl_base_nats=0.0))


def test_an_adapter_without_an_update_may_change_nothing():
    zero = AdapterRef("zero", "folder", 8, has_update=False)
    prompts, _ = _run(FakeReader(kl_base_nats=0.0), adapter=zero)
    assert len(prompts) == len(PROMPTS)


@pytest.mark.parametrize("fault", ["truncated_prompts", "failed_requests"])
def test_no_fault_is_averaged_away(fault):
    with pytest.raises(MeasurementError):
        _run(engine=FakeEngine(ACCEPTANCE, num_speculative_tokens=4, fault=fault))
