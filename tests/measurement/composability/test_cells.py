"""The matrix: every combination once, under a name that says what it is, pruned by the first rule that applies."""

from math import prod
from pathlib import Path

import pytest

from lora_spec.config import list_tiers, load_tier
from lora_spec.config.phase0_matrix import AxesConfig, PruningRule
from lora_spec.errors import MeasurementError
from lora_spec.measurement.composability.cells import AXES, enumerate_cells, find_cells

ROOT = Path(__file__).parents[3]
ROOT_TIERS = ("cpu", "mini", "paper")


@pytest.fixture(params=ROOT_TIERS)
def matrix(request):
    config = load_tier(ROOT, request.param).phase0_runtime
    return config, enumerate_cells(config.axes, config.pruning)


def _axes(**values):
    one = {
        "method": ("none", "ngram"),
        "lora": ("off",),
        "prefix_caching": (False,),
        "chunked_prefill": (True,),
        "execution": ("eager",),
        "scheduling": ("sync", "async"),
        "sampler": ("greedy",),
        "structured_output": (False,),
    }
    return AxesConfig(**{**one, **values})


def _rule(status, **when):
    return PruningRule(when=when, status=status, reason=f"{status} because")


def test_the_matrix_is_the_product_of_its_axes_and_names_are_unique(matrix):
    config, cells = matrix
    assert len(cells) == prod(len(getattr(config.axes, axis)) for axis in AXES)
    assert len({cell.cell_id for cell in cells}) == len(cells)


def test_a_name_tells_every_axis_value():
    (cell, *_) = enumerate_cells(_axes(method=("draft_model",), lora=("more_than_slots",)), ())
    assert cell.cell_id == "draft_model+lora-more-than-slots+prefix-off+chunked-on+eager+sync+greedy+free"
    assert list(cell.axes) == list(AXES)


def test_the_first_rule_that_applies_prunes_and_keeps_its_reason():
    rules = (_rule("conceptual", method="ngram", scheduling="async"), _rule("meaningless", method="ngram"))
    statuses = {
        (cell.axes["method"], cell.axes["scheduling"]): cell.rule and cell.rule.reason
        for cell in enumerate_cells(_axes(), rules)
    }
    assert statuses == {
        ("none", "sync"): None,
        ("none", "async"): None,
        ("ngram", "sync"): "meaningless because",
        ("ngram", "async"): "conceptual because",
    }


def test_a_list_in_a_rule_stands_for_any_of_its_values():
    rule = PruningRule(when={"method": ["none", "ngram"], "scheduling": "async"}, status="probe", reason="why")
    probes = [cell.axes for cell in enumerate_cells(_axes(), (rule,)) if cell.is_probe]
    assert [(axes["method"], axes["scheduling"]) for axes in probes] == [("none", "async"), ("ngram", "async")]


def test_cells_that_differ_name_the_axes_on_which_they_do():
    one, other = (enumerate_cells(_axes(), ())[i] for i in (0, 3))
    assert one.changed_axes(other) == ("method", "scheduling")
    assert one.changed_axes(one) == ()


def test_a_cell_that_is_not_there_or_cannot_run_is_refused_by_name():
    cells = enumerate_cells(_axes(), (_rule("conceptual", method="ngram"), _rule("probe", scheduling="async")))
    ids = [cell.cell_id for cell in cells]
    assert find_cells(cells, (ids[1], ids[0])) == (cells[1], cells[0])
    with pytest.raises(MeasurementError, match="conceptual because"):
        find_cells(cells, (ids[2],))
    with pytest.raises(MeasurementError, match="no cell 'nonsense'"):
        find_cells(cells, ("nonsense",))
    with pytest.raises(MeasurementError, match="named twice"):
        find_cells(cells, (ids[0], ids[1], ids[0]))


def test_every_tier_was_looked_at():
    assert list_tiers(ROOT) == ROOT_TIERS
