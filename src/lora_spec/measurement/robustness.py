"""Is the order of adapters the same under another drafter, and on the base's texts?"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from scipy.stats import kendalltau, spearmanr

from lora_spec.records import AcceptanceRecord, Context

# Name of a way to measure: (drafter, context).
_VIEWS: dict[str, tuple[str, Context]] = {
    "final": ("final", "own"),
    "early": ("early", "own"),
    "ngram": ("ngram", "own"),
    "final_on_base_text": ("final", "base"),
}


def tokens_per_step(record: AcceptanceRecord, view: str, *, depth: int, prompt_set: str) -> float | None:
    """Return delivered tokens per verify step of the adapted arm under one view, None where it was not measured.

    Steps without a draft count as steps: an n-gram drafter that finds nothing has not saved anything.
    """
    drafter, context = _VIEWS[view]
    chosen = [
        r
        for r in record.chosen("replay", drafter=drafter, context=context)
        if (r.arm, r.prompt_set, r.counts.num_speculative_tokens) == ("adapted", prompt_set, depth)
    ]
    num_steps = sum(r.num_steps or 0 for r in chosen)
    return 1 + sum(r.counts.num_accepted_tokens for r in chosen) / num_steps if num_steps else None


def order_stability(records: Sequence[AcceptanceRecord], *, depth: int, prompt_set: str = "own") -> dict[str, Any]:
    """Return each adapter's tokens per step under every view, and rank correlations between the views."""
    table = {
        record.adapter: {view: tokens_per_step(record, view, depth=depth, prompt_set=prompt_set) for view in _VIEWS}
        for record in records
    }
    views = [view for view in _VIEWS if all(row[view] is not None for row in table.values())]
    return {
        "prompt_set": prompt_set,
        "num_speculative_tokens": depth,
        "tokens_per_step": table,
        "correlations": [_correlate(table, left, right) for left, right in combinations(views, 2)],
    }


def _correlate(table: dict[str, dict[str, float | None]], left: str, right: str) -> dict[str, Any]:
    x, y = ([row[view] for row in table.values()] for view in (left, right))
    if len(set(x)) < 2 or len(set(y)) < 2 or len(x) < 3:
        return {"views": [left, right], "spearman": None, "kendall": None, "num_adapters": len(x)}
    return {
        "views": [left, right],
        "spearman": float(spearmanr(x, y).statistic),
        "kendall": float(kendalltau(x, y).statistic),
        "num_adapters": len(x),
    }
