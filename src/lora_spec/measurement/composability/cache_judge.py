"""Whose text came out of each request of a cache test, and whether that is what the config expects."""

from collections.abc import Mapping
from typing import Any

from lora_spec.measurement.composability.cache_semantics import CacheTest, References
from lora_spec.measurement.composability.checks import compare_with_reference

NOBODY = "nobody"
"""Served where a text is that of no writer: weights and cached prefixes were mixed."""


def judge_cache_test(
    test: CacheTest,
    ended: Mapping[str, Any] | None,
    report: Mapping[str, Any] | None,
    references: References,
    expected: Mapping[str, bool],
    margin: float,
) -> list[dict[str, Any]]:
    """Return one entry per claim: what was expected and observed, and whose text each request got.

    ``ended`` is the status of a process that did not finish, as :func:`~.judge.judge_end` gives it.
    """
    served = _served(test, report or {}, references, margin)
    hits = (report or {}).get("prefix_cache", {}).get("hits")
    return [
        {
            "test": claim,
            "process": test.name,
            "expected": expected[claim],
            "requests": [{"request": name, "due": test.due[name], "served": served.get(name)} for name in names],
            "prefix_cache_hits": hits,
            **_verdict(test, names, served, expected[claim], ended, hits),
        }
        for claim, names in test.claims.items()
    ]


def _verdict(
    test: CacheTest,
    names: tuple[str, ...],
    served: Mapping[str, str],
    expected: bool,
    ended: Mapping[str, Any] | None,
    hits: int | None,
) -> dict[str, Any]:
    if any(name not in served for name in names):
        return {"observed": None, **(ended or {"status": "crashed", "reason": "a request got no text"})}
    if test.must_hit_cache and not hits:
        return {"observed": None, "status": "wrong", "reason": "the prefix cache was never hit, so nothing was tested"}
    strays = [f"{name} got the text of {served[name]}" for name in names if served[name] != test.due[name]]
    reason = "; ".join(strays) or "every request got its own text"
    return {"observed": not strays, "status": "works" if expected == (not strays) else "wrong", "reason": reason}


def _served(test: CacheTest, report: Mapping[str, Any], references: References, margin: float) -> dict[str, str]:
    """Return request id to the writer whose reference text it got."""
    suffix = f"/{test.message_index}/free"
    texts = {name.removesuffix(suffix): text for name, text in references.items() if name.endswith(suffix)}
    outputs = {name: out["token_ids"] for name, out in report.get("outputs", {}).items() if "token_ids" in out}
    return {name: _writer(token_ids, texts, test.due[name], margin) for name, token_ids in outputs.items()}


def _writer(token_ids: list[int], texts: References, due: str, margin: float) -> str:
    # The one that is due first: a tie may make a text that of two.
    for writer in sorted(texts, key=lambda writer: writer != due):
        if compare_with_reference(token_ids, texts[writer], margin) != "different":
            return writer
    return NOBODY
