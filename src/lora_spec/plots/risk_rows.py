"""The rows of figure 8: what committing verdicts up to some doubt gives, and what is certified of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from lora_spec.evaluation.selective import upper_bound

Row = dict[str, Any]
_NOT_BY_SOURCE = {"num_committed_sources": None, "num_wrong_sources": None, "upper_by_source": None}


def risk_coverage_rows(certification: Mapping[str, Any]) -> list[Row]:
    """Return the curve over all judged adapters, the two certificates, and what both commit together."""
    rule, context = certification["rule"], certification["context"]
    shared = {
        **{key: rule[key] for key in ("confidence", "max_risk", "max_loss")},
        "load_batch_size": context["batch_size"],
        "mode": context["mode"],
    }
    rows = [*_curve(certification), *_certified(certification), _together(certification)]
    return [row | shared for row in rows]


def _curve(certification: Mapping[str, Any]) -> Iterator[Row]:
    adapters, confidence = certification["adapters"], certification["rule"]["confidence"]
    judged = len(adapters), len({item["source"] for item in adapters})
    for point in certification["curve"]:
        upper = upper_bound(point["num_wrong"], point["num_committed"], confidence)
        yield _row("curve", judged, point, threshold=point["threshold"], upper=upper) | _NOT_BY_SOURCE


def _certified(certification: Mapping[str, Any]) -> Iterator[Row]:
    for number, direction in enumerate(certification["directions"], start=1):
        found = direction["certificate"]
        judged = found["num_adapters"], found["num_sources"]
        threshold, upper = found["threshold"], found["adapters"]["upper"]
        row = _row("certified", judged, found["adapters"], threshold=threshold, upper=upper)
        yield row | {"direction": number} | _by_source(found["sources"], found["sources"]["upper"])


def _together(certification: Mapping[str, Any]) -> Row:
    found, confidence = certification["together"], certification["rule"]["confidence"]
    judged = len(certification["adapters"]), len({item["source"] for item in certification["adapters"]})
    uppers = {key: upper_bound(part["num_wrong"], part["num_committed"], confidence) for key, part in found.items()}
    row = _row("together", judged, found["adapters"], threshold=None, upper=uppers["adapters"])
    return row | _by_source(found["sources"], uppers["sources"])


def _row(
    kind: str,
    judged: tuple[int, int],
    counts: Mapping[str, int],
    *,
    threshold: float | None,
    upper: float | None,
) -> Row:
    num_committed, num_wrong = counts["num_committed"], counts["num_wrong"]
    return {
        "kind": kind,
        "direction": None,
        "threshold": threshold,
        "num_judged": judged[0],
        "num_judged_sources": judged[1],
        "num_committed": num_committed,
        "num_wrong": num_wrong,
        "coverage": num_committed / judged[0],
        "risk": num_wrong / num_committed if num_committed else None,
        "upper": upper,
    }


def _by_source(counts: Mapping[str, int], upper: float | None) -> Row:
    return {
        "num_committed_sources": counts["num_committed"],
        "num_wrong_sources": counts["num_wrong"],
        "upper_by_source": upper,
    }
