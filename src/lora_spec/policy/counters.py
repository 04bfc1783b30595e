"""Per-adapter counters as Prometheus metrics, shown by vLLM's own ``/metrics`` or on a port of their own.

vLLM runs its scheduler in another process than its HTTP server. Where ``PROMETHEUS_MULTIPROC_DIR`` is set before the
server starts, both write into that folder and ``/metrics`` of the server shows them all; else ``metrics_port`` opens a
port on the loopback interface in the scheduler's process.
"""

import functools
import logging
from dataclasses import dataclass
from typing import Any

_LOG = logging.getLogger("vllm.lora_spec.policy")

BASE = "base"
"""Label of requests without an adapter, unless an adapter bears this name, which then shares it."""


@dataclass(frozen=True)
class Metrics:
    """The metrics of this process; names as vLLM's, with an adapter's label and the prefix ``lora_spec:``."""

    num_drafts: Any
    num_draft_tokens: Any
    num_accepted_tokens: Any
    num_accepted_tokens_per_pos: Any
    depth: Any
    changes: Any
    policies: Any
    adapter_loads: Any


@functools.cache
def metrics() -> Metrics:
    """Return the metrics, made once in a process: a name cannot be registered twice."""
    from prometheus_client import Counter, Gauge

    def counter(name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"lora_spec:{name}", meaning, labelnames=labels)

    return Metrics(
        num_drafts=counter("num_drafts", "Draft steps that were verified.", "adapter"),
        num_draft_tokens=counter("num_draft_tokens", "Drafted tokens that were verified.", "adapter"),
        num_accepted_tokens=counter("num_accepted_tokens", "Drafted tokens that were accepted.", "adapter"),
        num_accepted_tokens_per_pos=counter(
            "num_accepted_tokens_per_pos", "Accepted tokens by draft position, 0 first.", "adapter", "position"
        ),
        depth=Gauge(
            "lora_spec:num_speculative_tokens",
            "Drafted tokens per step in force, at the load of the last step in which the adapter ran.",
            labelnames=("adapter",),
            multiprocess_mode="mostrecent",
        ),
        changes=counter("changes", "Changes that live acceptance made.", "adapter", "change"),
        policies=counter("policies", "Policy files that were loaded or refused.", "outcome"),
        adapter_loads=counter(
            "adapter_loads",
            "Adapters made ready for a batch: loaded from disk, or placed into a slot.",
            "adapter",
            "kind",
        ),
    )


@functools.cache
def open_port(port: int) -> None:
    """Serve this process's metrics on a loopback port, once; a port that is taken is said in one log line."""
    from prometheus_client import start_http_server

    try:
        start_http_server(port, addr="127.0.0.1")
    except OSError as err:
        _LOG.warning("metrics of adapters cannot be served on port %d (%s)", port, err.strerror or err)


class AdapterCounters:
    """What one scheduler counts, by adapter; None stands for the base model."""

    def __init__(self) -> None:
        self._metrics = metrics()
        self._depths: dict[str | None, int] = {}

    def observe(self, adapter: str | None, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Count one draft step."""
        label = adapter or BASE
        self._metrics.num_drafts.labels(label).inc()
        self._metrics.num_draft_tokens.labels(label).inc(num_draft_tokens)
        self._metrics.num_accepted_tokens.labels(label).inc(num_accepted_tokens)
        for position in range(num_accepted_tokens):
            self._metrics.num_accepted_tokens_per_pos.labels(label, str(position)).inc()

    def show_depth(self, adapter: str | None, depth: int) -> None:
        """Show the depth in force; cheap where it has not changed."""
        if self._depths.get(adapter) != depth:
            self._depths[adapter] = depth
            self._metrics.depth.labels(adapter or BASE).set(depth)

    def count_change(self, adapter: str | None, change: str) -> None:
        """Count a demotion, a promotion or a probe that failed."""
        self._metrics.changes.labels(adapter or BASE, change).inc()

    def count_load(self, adapter: str, kind: str) -> None:
        """Count an adapter that was made ready, ``load`` or ``place``."""
        self._metrics.adapter_loads.labels(adapter, kind).inc()

    def count_policies(self, num_loaded: int, num_refused: int) -> None:
        """Count policy files."""
        self._metrics.policies.labels("loaded").inc(num_loaded)
        self._metrics.policies.labels("refused").inc(num_refused)
