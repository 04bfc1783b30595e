"""What to run instead: for every wanted combination the nearest one that measured as working, and why.

What was asked for stays: an adapter's requests are served with that adapter, a grammar holds, and sampled output
keeps its law. Only what makes serving fast or convenient is given up.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lora_spec.config.phase0_matrix import FallbackWeights
from lora_spec.measurement.composability.cells import AXES
from lora_spec.measurement.composability.matrix import word

KEPT = (
    "lora: a request for an adapter is never served without it, so lora-off stands in for nothing but itself; base "
    "requests beside adapters may get an engine of their own, and fewer adapters per engine mean more engines",
    "structured_output: a grammar that was asked for holds",
    "sampler: greedy stays greedy and sampled stays sampled; only how drafts are drawn may change",
)
"""What no fallback gives up, in words, for the policy file."""

Row = Mapping[str, Any]


def fallback_policy(rows: Sequence[Row], weights: FallbackWeights) -> dict[str, Any]:
    """Return the policy over the rows of a matrix, meaningless combinations left out.

    The distance of two cells is the sum of the weights of the axes on which they differ; ties go to fewer changed
    axes, then to the first name. A cell with a setting that the engine replaced is offered for nothing: it is another
    cell than its name says. Neither is one whose output could not be judged: that it ran is no sign that it is right.
    """
    costs = weights.to_dict()
    offers = [row for row in rows if row["status"] == "works" and not row["replaced"] and not row["unjudged"]]
    wanted = [row for row in rows if row["status"] != "meaningless"]
    return {
        "weights": costs,
        "kept": list(KEPT),
        "ties": "fewer changed axes, then the first name",
        "entries": [_entry(row, offers, costs) for row in wanted],
    }


def _entry(wanted: Row, offers: Sequence[Row], costs: Mapping[str, float]) -> dict[str, Any]:
    # What the engine would really run.
    target = {**wanted["axes"], **wanted["replaced"]}
    found = _nearest(target, offers, costs)
    return {
        "wanted": wanted["cell_id"],
        "status": wanted["status"],
        "evidence": wanted["evidence"],
        "unmeasured_pairs": None if wanted["evidence"] == "measured" else _pairs(wanted),
        "replaced": dict(wanted["replaced"]),
        "fallback": found and found["cell_id"],
        "distance": found and sum(costs[axis] for axis in _changed(target, found["axes"])),
        "changes": found
        and {axis: [wanted["axes"][axis], found["axes"][axis]] for axis in _changed(wanted["axes"], found["axes"])},
        "reason": _reason(wanted, target, found),
    }


def _nearest(target: Mapping[str, Any], offers: Sequence[Row], costs: Mapping[str, float]) -> Row | None:
    def rank(offer: Row) -> tuple[float, int, str]:
        changed = _changed(target, offer["axes"])
        return sum(costs[axis] for axis in changed), len(changed), offer["cell_id"]

    return min((offer for offer in offers if is_admissible(target, offer["axes"])), key=rank, default=None)


def _changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [axis for axis in AXES if one[axis] != other[axis]]


def is_admissible(wanted: Mapping[str, Any], offered: Mapping[str, Any]) -> bool:
    """Return whether the offered combination answers what the wanted one was asked (see :data:`KEPT`)."""
    return (
        (wanted["lora"] == "off" or offered["lora"] != "off")
        and wanted["structured_output"] == offered["structured_output"]
        and (wanted["sampler"] == "greedy") == (offered["sampler"] == "greedy")
    )


def _pairs(row: Row) -> str:
    return f"{row['num_pairs_working']} of {row['num_pairs']} pairs of its settings were seen working"


def _reason(wanted: Row, target: Mapping[str, Any], found: Row | None) -> str:
    """Say what is known of the wanted cell, and which settings the fallback has in the place of those wanted."""
    known = {
        "works": f"{'ran, not judged' if wanted['unjudged'] else 'measured as working'}: {wanted['reason']}",
        "unmeasured": f"unmeasured: {_pairs(wanted)}",
        "conceptual": f"not run here: {wanted['reason']}",
    }.get(wanted["status"], f"measured as {wanted['status']}: {wanted['reason']}")
    if wanted["replaced"]:
        known += f"; the engine runs it with {_settings(wanted['replaced'])}"
    if found is None:
        return f"{known}; nothing that was measured as working serves this request"
    instead = {axis: found["axes"][axis] for axis in _changed(target, found["axes"])}
    return f"{known}; the nearest that works has {_settings(instead)}" if instead else known


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis}={word(value)}" for axis, value in values.items())
