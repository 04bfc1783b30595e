"""What live trials came to: cells as the simulator gives them, acceptance by adapter, and who used the cores."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lora_spec.records import AcceptanceCounts
from lora_spec.stress.comparison import stress_payload
from lora_spec.stress.live_table import LiveStress, LiveTrialPayload
from lora_spec.stress.policies.registry import POLICIES
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.summary import RunSummary, ServiceLevel, summarise
from lora_spec.traffic.patterns.registry import PATTERNS

PLACE = ("pattern", "cache_mode", "request_rate_req_s", "seed", "policy")
_CORES = ("generator_cores", "server_cores", "other_cores")


def live_stress_payload(live: LiveStress, *, level: float) -> dict[str, Any]:
    """Return the payload of a ``serving_stress`` result: compared policies, and what only a real run can say."""
    trials = live.payload["trials"]
    compared = stress_payload(live_cells(live), level=level, source="live", setup=live.payload["setup"])
    return {
        **compared,
        "acceptance": acceptance_by_adapter(trials),
        "cores": {name: _mean_and_most(trial[name] for trial in trials) for name in _CORES},
        "adapter_loads": _loads_by_scenario(trials),
    }


def live_cells(live: LiveStress) -> list[dict[str, Any]]:
    """Return one cell per trial; they ran in an order that was drawn, and are told in that of the registries."""
    policies, patterns = list(POLICIES), list(PATTERNS)

    def told_at(trial: LiveTrialPayload) -> tuple[Any, ...]:
        kind = patterns.index(trial["pattern"]) if trial["pattern"] in patterns else len(patterns)
        place = kind, trial["pattern"], trial["cache_mode"], trial["request_rate_req_s"]
        return *place, policies.index(trial["policy"]), trial["seed"]

    return [
        {
            "cell": {key: trial[key] for key in PLACE},
            "candidate": trial["candidate"],
            "summary": summarise_trial(live, trial).to_dict(),
        }
        for trial in sorted(live.payload["trials"], key=told_at)
    ]


def summarise_trial(live: LiveStress, trial: LiveTrialPayload) -> RunSummary:
    """Return what the requests of a trial came to; draft counts are of the whole trial and stand elsewhere."""
    loads = trial["num_adapter_loads"]
    return replace(
        summarise_records(live, live.records[trial["trial"]]),
        num_adapter_loads=loads.get("load", 0),
        num_cached_adapter_loads=loads.get("place", 0),
    )


def summarise_records(live: LiveStress, records: Sequence[RequestRecord]) -> RunSummary:
    """Return what requests came to, live or simulated, by the run's warm-up and service level."""
    traffic = live.payload["traffic"]
    return summarise(records, warmup_s=traffic["warmup_s"], service_level=ServiceLevel(**traffic["service_level"]))


def acceptance_by_adapter(trials: Sequence[LiveTrialPayload]) -> list[dict[str, Any]]:
    """Return draft counts per adapter and policy over all trials, warm-ups included.

    Depths differ between steps where a policy says so: tokens per draft step compare within ``candidate`` alone.
    """
    sums: dict[tuple[str, str, str], AcceptanceCounts] = {}
    for trial in trials:
        for adapter, counts in trial["counts"].items():
            key = (adapter, trial["policy"], trial["candidate"])
            sums[key] = _add(sums[key], counts) if key in sums else _add(counts)
    return [
        {
            "adapter": adapter,
            "policy": policy,
            "candidate": candidate,
            "num_drafts": counts.num_drafts,
            "num_draft_tokens": counts.num_draft_tokens,
            "num_accepted_tokens": counts.num_accepted_tokens,
            "num_accepted_tokens_per_pos": list(counts.num_accepted_tokens_per_pos),
            "tokens_per_draft_step": 1 + counts.num_accepted_tokens / counts.num_drafts,
        }
        for (adapter, policy, candidate), counts in sorted(sums.items())
    ]


def _add(*parts: AcceptanceCounts) -> AcceptanceCounts:
    deepest = max(len(part.num_accepted_tokens_per_pos) for part in parts)
    padded = [part.num_accepted_tokens_per_pos + (0,) * deepest for part in parts]
    return AcceptanceCounts(
        sum(part.num_drafts for part in parts),
        sum(part.num_draft_tokens for part in parts),
        sum(part.num_accepted_tokens for part in parts),
        tuple(sum(counts[position] for counts in padded) for position in range(deepest)),
    )


def _mean_and_most(values: Iterable[float]) -> dict[str, float]:
    found = list(values)
    return {"mean": sum(found) / len(found), "most": max(found)}


def _loads_by_scenario(trials: Sequence[LiveTrialPayload]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str, float, str], dict[str, int]] = {}
    for trial in trials:
        key = (trial["pattern"], trial["cache_mode"], trial["request_rate_req_s"], trial["policy"])
        sums = found.setdefault(key, {"load": 0, "place": 0})
        for kind in sums:
            sums[kind] += trial["num_adapter_loads"].get(kind, 0)
    names = ("pattern", "cache_mode", "request_rate_req_s", "policy")
    return [{**dict(zip(names, key, strict=True)), **sums} for key, sums in found.items()]


def pool_trials(live: LiveStress, trials: Sequence[Sequence[RequestRecord]]) -> RunSummary:
    """Return several trials of one policy as one run: times are one sample, windows add up."""
    together = summarise_records(live, [record for records in trials for record in records])
    return replace(together, window_s=sum(summarise_records(live, records).window_s for records in trials))


def by_scenario(live: LiveStress) -> Mapping[tuple[str, str, float], list[LiveTrialPayload]]:
    """Return the trials by pattern, cache mode and rate, in the order of the run."""
    found: dict[tuple[str, str, float], list[LiveTrialPayload]] = {}
    for trial in live.payload["trials"]:
        found.setdefault((trial["pattern"], trial["cache_mode"], trial["request_rate_req_s"]), []).append(trial)
    return found
