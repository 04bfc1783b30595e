from dataclasses import replace

import pytest

from lora_spec.measurement.robustness import order_stability
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord


def _view(accepted: int, *, steps: int = 10, drafts: int = 10, **view) -> PromptRecord:
    counts = AcceptanceCounts(drafts, 3 * drafts, accepted, (min(accepted, drafts), max(0, accepted - drafts), 0))
    record = PromptRecord("p", "own", "adapted", "a", counts, 4, (1,), "stop", num_steps=steps)
    return replace(record, **view)


def _pool(early, ngram=None):
    """Return five adapters whose final order is 0..4 and whose order by the early drafter is given."""
    return [
        AcceptanceRecord(
            f"a{i}",
            "s",
            (
                _view(2 * i),
                _view(early[i], drafter="early"),
                *([] if ngram is None else [_view(ngram[i], drafts=ngram[i] or 1, drafter="ngram")]),
            ),
        )
        for i in range(5)
    ]


def test_the_same_order_correlates_perfectly_and_the_reverse_inversely():
    for early, expected in (([0, 1, 2, 3, 4], 1), ([4, 3, 2, 1, 0], -1)):
        found = order_stability(_pool(early), depth=3)
        (pair,) = found["correlations"]
        assert (pair["views"], pair["num_adapters"]) == (["final", "early"], 5)
        assert pair["spearman"] == pytest.approx(expected)
        assert pair["kendall"] == pytest.approx(expected)


def test_steps_without_a_draft_count_as_steps():
    found = order_stability(_pool([0, 1, 2, 3, 4], ngram=[0, 1, 2, 3, 4]), depth=3)
    assert found["tokens_per_step"]["a4"]["ngram"] == 1 + 4 / 10


def test_an_order_without_differences_has_no_correlation():
    (pair,) = order_stability(_pool([3] * 5), depth=3)["correlations"]
    assert pair["spearman"] is None
