"""Counters of a running server, read from its ``/metrics``; what happened is a difference of two readings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lora_spec.errors import MeasurementError
from lora_spec.records import AcceptanceCounts

_PREFIX = "lora_spec:"


@dataclass(frozen=True)
class ServerCounters:
    """One reading; numbers by adapter, ``base`` standing for requests without one.

    Policies are counted by outcome, ``loaded`` or ``refused``; loads by kind, ``load`` from disk or ``place`` into a
    slot.
    """

    num_drafts: Mapping[str, int] = field(default_factory=dict)
    num_draft_tokens: Mapping[str, int] = field(default_factory=dict)
    num_accepted_per_pos: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    num_policies: Mapping[str, int] = field(default_factory=dict)
    num_changes: Mapping[str, int] = field(default_factory=dict)
    num_adapter_loads: Mapping[str, int] = field(default_factory=dict)

    def since(self, earlier: "ServerCounters") -> dict[str, AcceptanceCounts]:
        """Return the counts of every adapter that drafted after an earlier reading.

        Raises
        ------
        MeasurementError
            A counter went back: the server was started anew in between.
        """
        found = {}
        for adapter, num_drafts in self.num_drafts.items():
            before = earlier.num_accepted_per_pos.get(adapter, ())
            now = self.num_accepted_per_pos.get(adapter, ())
            accepted = tuple(count - (before[i] if i < len(before) else 0) for i, count in enumerate(now))
            drafts = num_drafts - earlier.num_drafts.get(adapter, 0)
            tokens = self.num_draft_tokens.get(adapter, 0) - earlier.num_draft_tokens.get(adapter, 0)
            if min(drafts, tokens, *accepted, 0) < 0:
                raise MeasurementError(f"adapter {adapter!r}: a counter of the server went back; run the trial again")
            if drafts:
                found[adapter] = AcceptanceCounts(drafts, tokens, sum(accepted), accepted)
        return found


def parse_counters(metrics_text: str) -> ServerCounters:
    """Return the reading in the text that ``/metrics`` gave.

    Raises
    ------
    MeasurementError
        It is no text of Prometheus.
    """
    from prometheus_client.parser import text_string_to_metric_families  # in the serving environment only

    values: dict[str, dict[tuple[str, ...], int]] = {}
    try:
        for family in text_string_to_metric_families(metrics_text):
            for sample in family.samples:
                if sample.name.startswith(_PREFIX) and sample.name.endswith("_total"):
                    key = tuple(value for _, value in sorted(sample.labels.items()))
                    values.setdefault(sample.name[len(_PREFIX) : -len("_total")], {})[key] = int(sample.value)
    except (ValueError, KeyError, IndexError) as err:
        raise MeasurementError(f"the server's metrics cannot be read ({err})") from err
    return ServerCounters(
        num_drafts=_by_first(values.get("num_drafts", {})),
        num_draft_tokens=_by_first(values.get("num_draft_tokens", {})),
        num_accepted_per_pos=_per_position(values.get("num_accepted_tokens_per_pos", {})),
        num_policies=_by_first(values.get("policies", {})),
        num_changes=_by_first(values.get("changes", {})),
        num_adapter_loads=_by_last(values.get("adapter_loads", {})),
    )


@dataclass(frozen=True)
class ServerFilling:
    """What is in the server now: requests running or waiting, and the share of the key-value cache that is taken."""

    num_requests: int
    kv_cache_share: float


def parse_filling(metrics_text: str) -> ServerFilling:
    """Return what the text of ``/metrics`` says is in the server.

    Raises
    ------
    MeasurementError
        It does not say.
    """
    from prometheus_client.parser import text_string_to_metric_families  # in the serving environment only

    found: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics_text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    try:
        num_requests = found["vllm:num_requests_running"] + found["vllm:num_requests_waiting"]
        return ServerFilling(int(num_requests), found["vllm:kv_cache_usage_perc"])
    except KeyError as err:
        raise MeasurementError(f"the server's metrics have no {err}; another version of vLLM?") from err


def _by_first(values: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    """Return sums by the first label in the alphabet: the adapter, or the outcome."""
    found: dict[str, int] = {}
    for key, value in values.items():
        found[key[0]] = found.get(key[0], 0) + value
    return found


def _by_last(values: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    """Return sums by the last label in the alphabet: the kind of a load."""
    found: dict[str, int] = {}
    for key, value in values.items():
        found[key[-1]] = found.get(key[-1], 0) + value
    return found


def _per_position(values: Mapping[tuple[str, ...], int]) -> dict[str, tuple[int, ...]]:
    positions: dict[str, dict[int, int]] = {}
    for (adapter, position), value in values.items():
        positions.setdefault(adapter, {})[int(position)] = value
    return {
        adapter: tuple(found.get(position, 0) for position in range(max(found) + 1))
        for adapter, found in positions.items()
    }
