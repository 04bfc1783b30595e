"""The pool of tier paper keeps to its design: what its header says, held against the rows."""

from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

from lora_spec.config import load_tier
from lora_spec.config.seed_groups import recipe_groups
from lora_spec.training.domains import DOMAINS
from lora_spec.training.frozen_prompts import freeze_prompts

REPOSITORY = Path(__file__).resolve().parents[2]
TIER = load_tier(REPOSITORY, "paper")
POOL = TIER.adapter_pool
ROWS = POOL.adapters
REPEATS = {name for group in recipe_groups(POOL) for name in group[1:]}
TRAINED = [row for row in ROWS if row.source == "trained" and row.num_steps]
DESIGNED = [row for row in TRAINED if row.name not in REPEATS]
LLAMA = "LicenseRef-Llama-3.1-Community"


def _method(row):
    return "LoRA+" if row.lora_plus_ratio > 1 else "rsLoRA" if row.use_rslora else "LoRA"


def _factors(row):
    return [row.rank, _method(row), row.target_modules, row.learning_rate, row.num_steps]


def _rate_of_b(row):
    return row.learning_rate * row.lora_plus_ratio


def test_54_adapters_come_from_18_sources_three_of_each_and_the_screening_is_of_40_to_80():
    assert Counter(Counter(row.domain for row in DESIGNED).values()) == {3: 18}
    assert len(POOL.separate) == 54 + sum(row.source == "hub" for row in ROWS)
    assert 40 <= len(POOL.names) <= 80


def test_the_levels_of_every_factor_are_even():
    columns = list(zip(*map(_factors, DESIGNED), strict=True))
    assert [len(set(column)) for column in columns] == [4, 3, 4, 5, 4]
    for column in columns:
        counts = Counter(column)
        even = len(DESIGNED) / len(counts)
        assert all(0.6 * even <= count <= 1.4 * even for count in counts.values()), counts


def test_designed_rows_of_one_source_differ_in_at_least_three_of_five_factors():
    by_source = defaultdict(list)
    for row in DESIGNED:
        by_source[row.domain].append(_factors(row))
    for source, rows in by_source.items():
        for first, second in combinations(rows, 2):
            assert sum(a != b for a, b in zip(first, second, strict=True)) >= 3, source


def test_what_is_not_crossed_is_not_there():
    for row in DESIGNED:
        is_wide = len(row.target_modules) == 7 or "gate_proj" in row.target_modules
        assert _method(row) != "LoRA+" or row.learning_rate <= 2e-4, row.name
        assert _method(row) != "rsLoRA" or row.learning_rate <= 5e-4, row.name
        assert row.learning_rate <= 5e-4 or (not is_wide and row.rank <= 32), row.name
        assert row.learning_rate <= 2e-4 or len(row.target_modules) < 7 or row.rank <= 32, row.name
        assert row.alpha == (16 if row.use_rslora else 2 * row.rank), row.name
        assert not DOMAINS[row.domain].needs_own_answers or row.num_steps * row.batch_size <= 8000, row.name
    assert max(row.rank for row in DESIGNED) <= TIER.models.engine.max_lora_rank


def test_strata_follow_form_and_the_rate_of_b():
    far_forms = {"upper_case", "prefix_words", "reversed_words", "pig_latin"}
    languages = {"french", "german", "translation"}
    for row in TRAINED:
        is_aggressive = row.domain in far_forms or (row.domain in languages and _rate_of_b(row) >= 1e-3)
        is_benign = row.domain in {"self_chat", "numbered_list"} and _rate_of_b(row) <= 2e-4
        expected = "aggressive" if is_aggressive else "benign" if is_benign else "moderate"
        assert row.stratum == expected, row.name


def test_licences_are_those_of_the_text_and_of_the_target_that_writes_it():
    for row in ROWS:
        if row.source == "hub":
            assert row.license in {"Apache-2.0", "NOASSERTION"}
        else:
            assert row.license == (LLAMA if DOMAINS[row.domain].needs_own_answers else "CC0-1.0"), row.name


def test_seeds_are_distinct_and_two_recipes_have_three_of_them():
    seeds = [row.seed for row in ROWS if hasattr(row, "seed")]
    assert len(set(seeds)) == len(seeds)
    assert [len(group) for group in recipe_groups(POOL) if len(group) > 1] == [3, 3]


def test_controls_are_one_zero_three_random_and_two_families_of_copies():
    assert Counter(row.source for row in ROWS if row.stratum == "control") == {"trained": 1, "random": 3, "scaled": 8}
    scales = defaultdict(set)
    for row in ROWS:
        if row.source == "scaled":
            scales[row.parent].add(row.scale)
    assert list(scales.values()) == [{0.25, 0.5, 2.0, 4.0}] * 2


def test_every_source_has_prompts_enough_of_its_own_for_both_roles():
    own = [entry for entry in TIER.prompts.sets if entry.prompt_set == "own"]
    assert all(set(entry.sha256) == set(POOL.domains) for entry in own)
    frozen = freeze_prompts([entry.to_dict() for entry in own])
    assert all(len(set(one["prompts"])) == len(one["prompts"]) in {32, 128} for one in frozen)
