"""Which cells are run: nothing by hand, every pair of values that can be run at least once."""

import itertools
from math import comb
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_spec.config import load_tier
from lora_spec.config.phase0_matrix import AxesConfig, PruningRule, SelectionConfig
from lora_spec.measurement.composability.cells import AXES, enumerate_cells
from lora_spec.measurement.composability.covering import combinations, cover, covered_by, select_cells

ROOT = Path(__file__).parents[3]
FULL = {
    "method": ("none", "ngram", "suffix", "draft_model"),
    "lora": ("off", "one", "several"),
    "prefix_caching": (False, True),
    "chunked_prefill": (False, True),
    "execution": ("eager", "compiled"),
    "scheduling": ("sync", "async"),
    "sampler": ("greedy", "temperature_greedy_drafts"),
    "structured_output": (False, True),
}


def _subset(values):
    return st.lists(st.sampled_from(values), min_size=1, unique=True).map(tuple)


@st.composite
def _matrices(draw):
    axes = AxesConfig(**{axis: draw(_subset(values)) for axis, values in FULL.items()})
    rules = []
    for _ in range(draw(st.integers(0, 3))):
        names = draw(st.lists(st.sampled_from(AXES), min_size=1, max_size=2, unique=True))
        when = {axis: draw(st.sampled_from(getattr(axes, axis))) for axis in names}
        rules.append(PruningRule(when=when, status=draw(st.sampled_from(["conceptual", "probe"])), reason="drawn"))
    return enumerate_cells(axes, tuple(rules))


@given(cells=_matrices(), strength=st.sampled_from([1, 2]))
@settings(max_examples=60, deadline=None)
def test_every_combination_of_a_runnable_cell_is_covered_and_by_runnable_cells_only(cells, strength):
    chosen = cover(cells, [], cells[0], strength)
    assert all(cell.is_runnable for cell in chosen)
    assert covered_by(chosen, strength) == covered_by((c for c in cells if c.is_runnable), strength)
    assert len(set(chosen)) == len(chosen)


def test_a_cell_holds_one_pair_for_every_two_axes():
    cell = enumerate_cells(AxesConfig(**FULL), ())[0]
    assert len(combinations(cell, 2)) == comb(len(AXES), 2)
    assert len(combinations(cell, 1)) == len(AXES)


def test_without_pruning_a_strength_of_one_needs_as_many_cells_as_the_longest_axis():
    cells = enumerate_cells(AxesConfig(**FULL), ())
    assert len(cover(cells, [], cells[0], 1)) == 4


def test_pairs_need_at_least_the_product_of_the_two_longest_axes():
    cells = enumerate_cells(AxesConfig(**FULL), ())
    assert 4 * 3 <= len(cover(cells, [], cells[0], 2)) <= 20


def test_nothing_is_added_where_all_is_covered():
    cells = enumerate_cells(AxesConfig(**FULL), ())
    assert cover(cells, cells, cells[0], 2) == []


def _selection(**changes):
    baseline = {axis: values[0] for axis, values in FULL.items()}
    rule = {"baseline": baseline, "variants": [], "has_neighbours": True, "coverage_strength": 1}
    return SelectionConfig(**{**rule, **changes})


def test_neighbours_are_all_cells_one_axis_away_from_a_baseline():
    cells = enumerate_cells(AxesConfig(**FULL), ())
    found = [entry.cell for entry in select_cells(cells, _selection()) if entry.why == "neighbour"]
    assert len(found) == sum(len(values) - 1 for values in FULL.values())
    assert all(len(cell.changed_axes(cells[0])) == 1 for cell in found)


def test_a_probe_is_run_next_to_a_baseline_and_nowhere_else():
    rule = PruningRule(when={"scheduling": "async"}, status="probe", reason="turned off")
    cells = enumerate_cells(AxesConfig(**FULL), (rule,))
    probes = [entry for entry in select_cells(cells, _selection(coverage_strength=2)) if entry.cell.is_probe]
    assert [entry.why for entry in probes] == ["neighbour"]


def test_what_is_pruned_is_never_selected():
    rule = PruningRule(when={"lora": "several"}, status="conceptual", reason="not here")
    cells = enumerate_cells(AxesConfig(**FULL), (rule,))
    assert all(entry.cell.axes["lora"] != "several" for entry in select_cells(cells, _selection()))


def test_the_same_matrix_gives_the_same_selection_without_repeats():
    cells = enumerate_cells(AxesConfig(**FULL), ())
    rule = _selection(variants=[{"lora": "several"}], coverage_strength=2)
    first, second = select_cells(cells, rule), select_cells(cells, rule)
    assert first == second
    assert len({entry.cell for entry in first}) == len(first)


@pytest.mark.parametrize(("tier", "least", "most"), [("mini", 2, 3), ("cpu", 40, 55), ("paper", 40, 55)])
def test_a_tier_runs_as_many_cells_as_it_has_time_for(tier, least, most):
    config = load_tier(ROOT, tier).phase0_runtime
    cells = enumerate_cells(config.axes, config.pruning)
    selected = select_cells(cells, config.selection)
    assert least <= len(selected) <= most
    runnable = [cell for cell in cells if cell.is_runnable]
    strength = config.selection.coverage_strength
    covered = covered_by([entry.cell for entry in selected], strength)
    assert set(itertools.chain.from_iterable(combinations(cell, strength) for cell in runnable)) <= covered
