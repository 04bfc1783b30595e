"""What the preflight is told follows from a tier's files, and a licence that nobody states cannot be accepted."""

from pathlib import Path

import pydantic
import pytest

from lora_spec.config import load_tier
from lora_spec.config.preflight import PreflightConfig
from lora_spec.config.preflight_settings import PreflightSettings, is_covered, preflight_settings
from lora_spec.typed import check_type

ROOT = Path(__file__).resolve().parents[2]
PAPER = load_tier(ROOT, "paper")


@pytest.mark.parametrize(
    "accepted", [["NOASSERTION"], ["noassertion"], ["NONE"], ["MIT", "other"], ["unknown"], ["MIT", "MIT"], [""]]
)
def test_what_is_no_licence_or_stands_twice_is_refused(accepted):
    with pytest.raises(pydantic.ValidationError):
        PreflightConfig(min_gpu_memory_gib=1, min_free_disk_gib=1, accepted_licenses=accepted)


def test_the_preflight_is_told_of_both_pairs_and_of_the_named_adapters_alone():
    told = preflight_settings(PAPER, ("sql_r16", "hub_llama313", "hub_translate"))
    check_type(PreflightSettings, told, "settings")
    models = ["Llama-3.1-8B-Instruct", "Llama-3.2-1B-Instruct", "Qwen2.5-7B-Instruct", "Qwen2.5-0.5B-Instruct"]
    assert told["unpinned"] == [*models, "hub_llama313"]
    asked = sorted(name for names in told["licenses"].values() for name in names)
    assert asked == sorted([*models, "sql_r16", "hub_llama313", "hub_translate"])


def test_a_preflight_for_all_adapters_covers_some_of_them_and_not_the_other_way_round():
    some, more = (preflight_settings(PAPER, names) for names in (("sql_r16",), ("sql_r16", "hub_llama313")))
    assert is_covered(some, more)
    assert is_covered(more, more)
    assert not is_covered(more, some)
    assert not is_covered(some, more | {"vllm_version": "0.33.0"})
    assert not is_covered(some, more | {"preflight": {**more["preflight"], "min_free_disk_gib": 1}})


@pytest.mark.parametrize("tier", ["mini", "cpu"])
def test_what_is_shipped_or_has_a_hash_is_pinned(tier):
    loaded = load_tier(ROOT, tier)
    assert preflight_settings(loaded, loaded.adapter_pool.names)["unpinned"] == []


def test_adapters_of_chat_forms_find_answers_enough_of_either_target():
    from lora_spec.training.domains import DOMAINS

    rows = [row for row in PAPER.adapter_pool.adapters if row.source == "trained" and row.num_steps]
    needed = max(row.num_steps * row.batch_size for row in rows if DOMAINS[row.domain].needs_own_answers)
    for pair in PAPER.models.pairs:
        assert pair.trajectories.num_greedy_prompts >= needed
