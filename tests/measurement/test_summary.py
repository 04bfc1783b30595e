"""One adapter's whole measurement on a fake engine whose acceptance is known."""

from dataclasses import replace

import pytest

from lora_spec.engines import AdapterRef
from lora_spec.engines.fake import FakeEngine, FakeReplayer
from lora_spec.errors import ConfigError, MeasurementError
from lora_spec.measurement import Prompt
from lora_spec.measurement.collect import CollectSettings, LoraCollector, PromptSet
from lora_spec.measurement.summary import SummarySettings, summarise_record
from lora_spec.records import AcceptanceRecord

ACCEPTANCE = {None: 0.8, "shifted": 0.3, "harmless": 0.8}
SETTINGS = CollectSettings(num_speculative_tokens=3, max_depth=4, min_drafts=16, num_warmup_prompts=2)
HOW = SummarySettings(num_speculative_tokens=3, min_drafts=16, level=0.9, num_bootstrap_draws=400, seed=0)


def _prompts(name: str, first: int, count: int = 24) -> PromptSet:
    prompts = tuple(Prompt(f"{name}-{i}", tuple(range(first + i, first + i + 9))) for i in range(count))
    return PromptSet(name, f"sha-{name}", prompts, max_tokens=60)


def _collect(name: str, **fake):
    engine = FakeEngine(ACCEPTANCE, num_speculative_tokens=4, **fake)
    collector = LoraCollector(engine, {"final": FakeReplayer(ACCEPTANCE)}, SETTINGS)
    records = collector.collect(AdapterRef(name, "folder", 8), [_prompts("own", 3), _prompts("common", 700)])
    return AcceptanceRecord(name, "0" * 64, records)


def test_live_and_replayed_counts_at_the_standing_depth_are_equal():
    for cell in summarise_record(_collect("shifted"), HOW)["live"]:
        assert cell["live"] == cell["replay"]


def test_estimates_find_the_known_acceptance():
    summary = summarise_record(_collect("shifted"), HOW)
    for key, alpha in (("estimate", 0.3), ("base_estimate", 0.8)):
        lengths = summary[key]["acceptance_length_by_depth"]
        for depth, interval in enumerate(lengths, start=1):
            exact = (1 - alpha ** (depth + 1)) / (1 - alpha)
            assert interval["estimate"] == pytest.approx(exact, rel=0.12)


def test_effect_of_a_shifted_adapter_is_negative_and_its_interval_excludes_zero():
    own, common = summarise_record(_collect("shifted"), HOW)["effects"]
    assert (own["prompt_set"], common["prompt_set"]) == ("own", "common")
    for effect in (own, common):
        assert effect["acceptance_length_difference"]["upper"] < -0.5
        assert effect["mismatch"]["lower"] > 0.3


def test_every_depth_is_replayed_for_every_prompt_and_arm():
    replayed = _collect("harmless").chosen("replay")
    cells = {(r.prompt_id, r.arm, r.counts.num_speculative_tokens) for r in replayed}
    assert len(cells) == len(replayed) == 2 * 24 * 2 * 4


def test_base_is_measured_once_per_list_of_prompts():
    engine = FakeEngine(ACCEPTANCE, num_speculative_tokens=4)
    calls = []
    generate = engine.generate
    engine.generate = lambda requests: (calls.append(requests[0].adapter), generate(requests))[1]
    collector = LoraCollector(engine, {"final": FakeReplayer(ACCEPTANCE)}, SETTINGS)
    for name in ("shifted", "harmless"):
        collector.collect(AdapterRef(name, "folder", 8), [_prompts("own", 3)])
    assert sum(adapter is None for adapter in calls) == 3  # warm-up, window, overrun


@pytest.mark.parametrize("fault", ["lost_counters", "reset_counters", "adapter_ignored", "truncated_prompts"])
def test_no_fault_is_averaged_away(fault):
    with pytest.raises(MeasurementError):
        _collect("shifted", fault=fault)


@pytest.mark.parametrize(
    "change",
    [
        {"level": 0.0},
        {"level": 1.0},
        {"level": 5.0},
        {"num_bootstrap_draws": 0},
        {"seed": -1},
        {"num_speculative_tokens": 0},
        {"min_drafts": 0},
    ],
)
def test_settings_that_no_estimate_can_follow_are_refused(change):
    with pytest.raises(ConfigError, match="the level inside 0 to 1"):
        replace(HOW, **change)
