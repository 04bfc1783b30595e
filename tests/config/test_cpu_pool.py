"""The pool of tier cpu keeps to its design: what its header says, held against the rows."""

from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.training.domains import DOMAINS

REPOSITORY = Path(__file__).resolve().parents[2]
TIER = load_tier(REPOSITORY, "cpu")
ROWS = TIER.adapter_pool.adapters
TRAINED = [row for row in ROWS if row.source in ("trained", "shipped") and row.num_steps]
POOL = [row for row in TRAINED if "_seed" not in row.name]

NUM_LAYERS = 30
# Inputs and outputs of SmolLM2-135M's linear layers: hidden 576, keys and values 192, MLP 1536.
SHAPES = {
    "q_proj": (576, 576),
    "k_proj": (576, 192),
    "v_proj": (576, 192),
    "o_proj": (576, 576),
    "gate_proj": (576, 1536),
    "up_proj": (576, 1536),
    "down_proj": (1536, 576),
}
FACTORS = ("rank", "method", "target_modules", "learning_rate", "num_steps")


def _method(row):
    return "LoRA+" if row.lora_plus_ratio > 1 else "rsLoRA" if row.use_rslora else "LoRA"


def _factors(row):
    return [_method(row) if factor == "method" else getattr(row, factor) for factor in FACTORS]


def _rate_of_b(row):
    return row.learning_rate * row.lora_plus_ratio


def _num_bytes(name):
    row = TIER.adapter_pool.find_origin(name)
    return 2 * NUM_LAYERS * row.rank * sum(sum(SHAPES[module]) for module in row.target_modules)


def test_48_adapters_come_from_18_sources():
    sources = Counter(row.domain for row in POOL)
    assert (len(POOL), len(sources)) == (48, 18)
    assert set(sources.values()) == {2, 3}
    assert "python_doc" not in sources


def test_the_weights_and_the_training_stay_within_their_budgets():
    assert sum(_num_bytes(row.name) for row in ROWS) <= 42e6
    assert sum(row.num_steps for row in TRAINED) <= 12_000


def test_the_bytes_of_a_shipped_adapter_follow_from_rank_and_shapes():
    shipped = load_tier(REPOSITORY, "mini").adapter_pool.find("json_extract")
    size = (REPOSITORY / shipped.path / "adapter_model.safetensors").stat().st_size
    predicted = 2 * NUM_LAYERS * shipped.rank * sum(sum(SHAPES[module]) for module in shipped.target_modules)
    # The rest is the file's header.
    assert 0 < size - predicted < 0.02 * size


def test_every_level_of_every_factor_is_used():
    levels = [set(column) for column in zip(*map(_factors, POOL), strict=True)]
    assert [len(level) for level in levels] == [4, 3, 4, 5, 4]
    assert levels[0] == {2, 4, 8, 16}
    assert levels[3] == {2e-4, 5e-4, 1e-3, 2e-3, 4e-3}
    assert {row.batch_size for row in TRAINED} == {4}
    assert {row.lora_plus_ratio for row in TRAINED} == {1.0, 16.0}


def test_rows_of_one_source_differ_in_at_least_three_of_five_factors():
    by_source = defaultdict(list)
    for row in POOL:
        by_source[row.domain].append(_factors(row))
    for source, rows in by_source.items():
        for first, second in combinations(rows, 2):
            assert sum(a != b for a, b in zip(first, second, strict=True)) >= 3, source


def test_strata_follow_form_and_the_rate_of_b():
    far_forms = {"upper_case", "prefix_words", "reversed_words", "pig_latin"}
    languages = {"french", "german", "translation"}
    for row in TRAINED:
        is_aggressive = row.domain in far_forms or (row.domain in languages and _rate_of_b(row) >= 2e-3)
        is_benign = row.domain in {"self_chat", "numbered_list"} and _rate_of_b(row) <= 5e-4
        expected = "aggressive" if is_aggressive else "benign" if is_benign else "moderate"
        assert row.stratum == expected, row.name


def test_the_pilot_comes_first_and_is_long_enough_to_learn():
    pilot = ROWS[:12]
    assert TIER.adapter_pool.pilot[:12] == tuple(row.name for row in pilot)
    assert Counter(row.stratum for row in pilot) == {"aggressive": 4, "moderate": 4, "benign": 2, "control": 2}
    assert {row.num_steps for row in pilot if row.stratum == "aggressive"} == {500}
    assert all(row.num_steps >= 300 for row in pilot if row in POOL)
    assert Counter(row.source for row in pilot if row.stratum == "control") == {"trained": 1, "random": 1}
    doses = [TIER.adapter_pool.find(name) for name in TIER.adapter_pool.pilot[12:]]
    assert all(row.source == "scaled" and row.parent in TIER.adapter_pool.pilot for row in doses)
    assert {row.scale for row in doses} == {0.25, 0.5, 2.0, 4.0}


def test_seeds_are_distinct_and_repeats_differ_in_nothing_else():
    seeds = [row.seed for row in ROWS if hasattr(row, "seed")]
    assert len(set(seeds)) == len(seeds)
    repeats = [row for row in TRAINED if "_seed" in row.name]
    assert len({row.name.partition("_seed")[0] for row in repeats}) == 2
    for row in repeats:
        first = TIER.adapter_pool.find(row.name.partition("_seed")[0])
        hidden = {"name", "seed"}
        assert row.made_again().model_dump(exclude=hidden) == first.made_again().model_dump(exclude=hidden)


def test_what_counts_as_separate_leaves_out_repeats_and_controls():
    assert list(TIER.adapter_pool.separate) == [row.name for row in POOL]


def test_controls_are_one_zero_three_random_and_two_families_of_copies():
    kinds = Counter(row.source for row in ROWS if row.stratum == "control")
    assert kinds == {"trained": 1, "random": 3, "scaled": 8}
    scales = defaultdict(set)
    for row in ROWS:
        if row.source == "scaled":
            scales[row.parent].add(row.scale)
    assert list(scales.values()) == [{0.25, 0.5, 2.0, 4.0}] * 2


@pytest.mark.parametrize("tier", ["mini", "cpu"])
def test_no_row_asks_for_more_own_answers_than_the_target_wrote(tier):
    loaded = load_tier(REPOSITORY, tier)
    num_answers = loaded.models.primary.drafter.training.num_greedy_prompts
    for row in loaded.adapter_pool.adapters:
        if row.source in ("trained", "shipped") and DOMAINS[row.domain].needs_own_answers:
            assert row.num_steps * row.batch_size <= min(3000, num_answers), row.name


def test_common_prompts_are_32_of_each_of_four_domains():
    common = TIER.prompts.common_evaluation
    assert (common.num_prompts, len(common.sha256), common.num_prompts_per_adapter) == (32, 4, 128)
    assert set(common.sha256) <= set(DOMAINS)


def test_every_prompt_list_is_frozen():
    assert all(sha256 for entry in TIER.prompts.sets for sha256 in entry.sha256.values())
