"""Fleets of verdicts: given by the real gate on hand-made acceptances, or written down load by load."""

from pathlib import Path

from hand_made import SETTINGS, cost_model, estimate, geometric

from lora_spec.gate import decide
from lora_spec.gate.fleet_verdicts import FleetVerdict, LoadDepth, read_fleet
from lora_spec.records import Interval
from lora_spec.results import write_json_atomically

CONTEXT = {"tier": "mini", "target_model": "target", "draft_model": "drafter", "engine": "vLLM"}
POLICY = {"abstained": "standing", "is_hot_adapter_merged": True, "live": None}


def verdict_data(name, alpha, *, below=0.0, above=0.0, mode="checkpoint_only", settings=SETTINGS, **how):
    """Return the JSON of the gate's verdict on an adapter whose acceptance is alpha at every position."""
    found = decide(
        estimate(geometric(alpha), below=below, above=above, mode=mode),
        cost_model(),
        settings=settings,
        adapter={"name": name, "weights_sha256": "0" * 64},
        context=CONTEXT,
        provenance={"tier": "mini", "evidence": "measured"},
        **how,
    )
    return found.to_dict()


def write_verdict(folder: Path, stem: str, data) -> Path:
    """Write one verdict's file and return its path."""
    path = folder / f"{stem}.json"
    write_json_atomically(path, data)
    return path


def fleet(folder: Path, **alphas):
    """Return verdicts, read back from files, on adapters by their acceptance."""
    for name, alpha in alphas.items():
        write_verdict(folder, name, verdict_data(name, alpha))
    return read_fleet([folder])


def made(name, depths, *, action="green", drafter="keep", sizes=(1, 16), standing=3, **fields) -> FleetVerdict:
    """Return a verdict that says these depths at these loads, None where it abstains."""
    colours = {None: "abstain", 0: "red", standing: "green"}
    loads = tuple(LoadDepth(size, colours.get(k, "amber"), k, {}) for size, k in zip(sizes, depths, strict=True))
    context = {**CONTEXT, "standing_num_speculative_tokens": standing, "num_speculative_tokens": standing}
    defaults = {
        "weights_sha256": None,
        "mode": "measured",
        "num_speculative_tokens": None if action == "abstain" else depths[0],
        "acceptance_length": Interval(1.5, 1.4, 1.6, 0.9),
        "speedup": Interval(1.1, 1.0, 1.2, 0.89),
        "context": context,
        "reasons": (("R_MADE", "made by hand"),),
        "predictor_sha256": None,
        "evidence": "measured",
        "path": Path(f"{abs(hash(name))}.json"),
    }
    return FleetVerdict(name=name, action=action, drafter=drafter, by_load=loads, **(defaults | fields))
