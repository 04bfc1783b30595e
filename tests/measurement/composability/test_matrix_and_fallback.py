"""What is laid over the matrix and what is offered instead, in cases worked out by hand."""

import csv
import io

import pytest

from lora_spec.config.phase0_matrix import AxesConfig, FallbackWeights, PruningRule
from lora_spec.measurement.composability.cells import AXES, enumerate_cells
from lora_spec.measurement.composability.fallback import fallback_policy, is_admissible
from lora_spec.measurement.composability.matrix import lay_over, matrix_csv

WEIGHTS = FallbackWeights(
    method=8.0,
    lora=6.0,
    prefix_caching=3.0,
    chunked_prefill=2.0,
    execution=2.0,
    scheduling=1.0,
    sampler=1.0,
)
ONLY = {
    "method": ("draft_model",),
    "lora": ("one",),
    "prefix_caching": (True,),
    "chunked_prefill": (True,),
    "execution": ("eager",),
    "scheduling": ("sync",),
    "sampler": ("greedy",),
    "structured_output": (False,),
}


def _seen(status="works", replaced=None):
    return {"status": status, "reason": f"it {status}", "replaced": replaced or {}, "timestamp": "now"}


def _policy(axes, seen, rules=()):
    """Return entries by the values of the axes that vary, with observations given in the same way."""
    cells = enumerate_cells(AxesConfig(**{**ONLY, **axes}), rules)
    key = {cell.cell_id: tuple(cell.axes[axis] for axis in axes) for cell in cells}
    observed = {name: seen[values] for name, values in key.items() if values in seen}
    policy = fallback_policy(lay_over(cells, observed), WEIGHTS)
    found = {key[entry["wanted"]]: {**entry, "fallback": key.get(entry["fallback"])} for entry in policy["entries"]}
    return found, policy


def test_without_observations_every_cell_is_contract_only_and_nothing_is_offered():
    cells = enumerate_cells(AxesConfig(**{**ONLY, "method": ("none", "draft_model")}), ())
    rows = lay_over(cells, {})
    assert {(row["status"], row["evidence"]) for row in rows} == {("unmeasured", "contract-only")}
    entries = fallback_policy(rows, WEIGHTS)["entries"]
    assert all(entry["fallback"] is None and "nothing that was measured" in entry["reason"] for entry in entries)


def test_a_working_cell_is_its_own_fallback_at_no_distance():
    entries, _ = _policy({"method": ("none", "ngram")}, {("ngram",): _seen()})
    assert entries["ngram",]["fallback"] == ("ngram",)
    assert (entries["ngram",]["distance"], entries["ngram",]["changes"]) == (0, {})
    assert entries["ngram",]["reason"] == "measured as working: it works"


def test_the_cheapest_axes_are_given_up_first():
    axes = {"method": ("none", "draft_model"), "prefix_caching": (False, True), "scheduling": ("sync", "async")}
    seen = {
        ("draft_model", True, "async"): _seen("wrong"),
        # Two cheap axes (3 + 1) against one dear one (8).
        ("draft_model", False, "sync"): _seen(),
        ("none", True, "async"): _seen(),
    }
    entry = _policy(axes, seen)[0]["draft_model", True, "async"]
    assert entry["fallback"] == ("draft_model", False, "sync")
    assert entry["distance"] == 4
    assert entry["changes"] == {"prefix_caching": [True, False], "scheduling": ["async", "sync"]}
    assert entry["reason"] == (
        "measured as wrong: it wrong; the nearest that works has prefix_caching=off, scheduling=sync"
    )


def test_at_equal_cost_fewer_axes_change_then_the_first_name():
    axes = {"prefix_caching": (False, True), "chunked_prefill": (False, True), "scheduling": ("sync", "async")}
    wanted = (True, True, "async")
    two, one = (True, False, "sync"), (False, True, "async")
    assert _policy(axes, {two: _seen(), one: _seen()})[0][wanted]["fallback"] == one
    methods = {"method": ("ngram", "none", "draft_model")}
    assert _policy(methods, {("none",): _seen(), ("ngram",): _seen()})[0]["draft_model",]["fallback"] == ("ngram",)


def test_an_adapter_is_never_dropped_and_the_policy_says_so():
    entries, policy = _policy({"lora": ("off", "one", "several")}, {("off",): _seen()})
    assert entries["several",]["fallback"] is None
    assert entries["off",]["fallback"] == ("off",)
    assert any("never served without it" in line for line in policy["kept"])
    entries, _ = _policy({"lora": ("off", "one", "several")}, {("off",): _seen(), ("one",): _seen()})
    assert entries["several",]["fallback"] == ("one",)


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        ({"lora": "off"}, False),
        ({"lora": "several"}, True),
        ({"structured_output": True}, False),
        ({"sampler": "temperature_greedy_drafts"}, False),
        ({"method": "none", "prefix_caching": False, "execution": "compiled", "scheduling": "async"}, True),
    ],
)
def test_what_was_asked_for_is_kept(change, is_kept):
    wanted = {axis: values[0] for axis, values in ONLY.items()}
    assert is_admissible(wanted, {**wanted, **change}) is is_kept


def test_how_drafts_are_drawn_may_change_since_the_law_of_the_output_does_not():
    one, other = "temperature_greedy_drafts", "temperature_probabilistic_drafts"
    entries, _ = _policy({"sampler": ("greedy", one, other)}, {(other,): _seen(), ("greedy",): _seen()})
    assert entries[one,]["fallback"] == (other,)


def test_a_replaced_setting_is_offered_to_nobody_and_told_to_who_asks_for_it():
    axes = {"method": ("ngram", "draft_model"), "scheduling": ("sync", "async")}
    seen = {("draft_model", "async"): _seen(replaced={"scheduling": "sync"}), ("draft_model", "sync"): _seen()}
    entries, _ = _policy(axes, seen)
    asked = entries["draft_model", "async"]
    assert (asked["fallback"], asked["distance"]) == (("draft_model", "sync"), 0)
    assert asked["changes"] == {"scheduling": ["async", "sync"]}
    assert asked["reason"] == "measured as working: it works; the engine runs it with scheduling=sync"
    assert entries["ngram", "async"]["fallback"] == ("draft_model", "sync")


def test_a_cell_whose_output_could_not_be_judged_is_offered_to_nobody_not_even_itself():
    unjudged = {**_seen(), "checks": [{"name": "texts", "outcome": "unknown"}, {"name": "grammar", "outcome": "ok"}]}
    entries, _ = _policy({"method": ("none", "ngram", "draft_model")}, {("none",): _seen(), ("ngram",): unjudged})
    assert [entries[method,]["fallback"] for method in ("none", "ngram", "draft_model")] == [("none",)] * 3
    assert entries["ngram",]["reason"].startswith("ran, not judged: it works; the nearest that works has method=none")


def test_what_was_not_judged_was_not_seen_working():
    (cell,) = enumerate_cells(AxesConfig(**ONLY), ())
    unjudged = {**_seen(), "checks": [{"name": "texts", "outcome": "unknown"}]}
    (row,) = lay_over([cell], {cell.cell_id: unjudged})
    assert (row["num_pairs_working"], row["unjudged"]) == (0, ["texts"])


def test_an_unmeasured_cell_says_how_many_of_its_pairs_were_seen_working():
    axes = {"method": ("none", "ngram"), "prefix_caching": (False, True)}
    seen = {("none", False): _seen(), ("ngram", True): _seen(), ("ngram", False): _seen("wrong")}
    entry = _policy(axes, seen)[0]["none", True]
    # Of 28 pairs only (none, prefix on) was in no working cell.
    assert entry["unmeasured_pairs"] == "27 of 28 pairs of its settings were seen working"
    assert entry["reason"].startswith("unmeasured: 27 of 28 pairs")


def test_pairs_with_a_replaced_setting_were_not_seen_working():
    axes = {"scheduling": ("sync", "async"), "prefix_caching": (False, True)}
    cells = enumerate_cells(AxesConfig(**{**ONLY, **axes}), ())
    asked = next(cell for cell in cells if cell.axes["scheduling"] == "async" and cell.axes["prefix_caching"])
    (row,) = (
        row
        for row in lay_over(cells, {asked.cell_id: _seen(replaced={"scheduling": "sync"})})
        if row["cell_id"] == asked.cell_id
    )
    assert row["num_pairs_working"] == 28 - 7


def test_meaningless_combinations_have_no_fallback_and_conceptual_ones_do():
    rules = (
        PruningRule(when={"method": "none"}, status="meaningless", reason="no such thing"),
        PruningRule(when={"method": "mtp"}, status="conceptual", reason="no such layers"),
    )
    entries, _ = _policy({"method": ("none", "mtp", "ngram")}, {("ngram",): _seen()}, rules)
    assert set(entries) == {("mtp",), ("ngram",)}
    assert entries["mtp",]["fallback"] == ("ngram",)
    assert entries["mtp",]["reason"] == "not run here: no such layers; the nearest that works has method=ngram"


def test_the_csv_has_one_line_per_cell_and_a_column_per_axis():
    cells = enumerate_cells(AxesConfig(**{**ONLY, "scheduling": ("sync", "async")}), ())
    rows = lay_over(cells, {cells[1].cell_id: _seen(replaced={"scheduling": "sync"})})
    table = list(csv.DictReader(io.StringIO(matrix_csv(rows).decode())))
    assert [row["cell_id"] for row in table] == [cell.cell_id for cell in cells]
    assert set(AXES) < set(table[0])
    assert [row["status"] for row in table] == ["unmeasured", "works"]
    assert table[1]["replaced"] == "scheduling=sync"
    assert table[0]["prefix_caching"] == "on"
